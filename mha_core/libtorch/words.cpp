#include "words.h"

#include <charconv>
#include <cmath>
#include <cstdio>

namespace mha {

std::string joined(const std::vector<int64_t>& numbers, const std::string& between) {
  std::string text;
  for (size_t i = 0; i < numbers.size(); ++i) {
    text += (i == 0 ? "" : between) + std::to_string(numbers[i]);
  }
  return text;
}

std::string tuple_text(const std::vector<int64_t>& shape) {
  return "(" + joined(shape) + (shape.size() == 1 ? ",)" : ")");
}

std::string float_text(double value) {
  if (std::isnan(value)) {
    return "nan";
  }
  if (std::isinf(value)) {
    return value > 0 ? "inf" : "-inf";
  }
  // d.ddde±XX with the fewest digits that read back; Python then chooses the notation by XX.
  char buffer[64];
  auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  std::string text(buffer, end.ptr);
  const size_t at = text.find('e');
  const int exponent = std::stoi(text.substr(at + 1));
  if (exponent < -4 || exponent >= 16) {
    return text;
  }
  const std::string sign = text[0] == '-' ? "-" : "";
  std::string digits;
  for (char c : text.substr(0, at)) {
    if (c >= '0' && c <= '9') {
      digits += c;
    }
  }
  if (exponent < 0) {
    return sign + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  }
  const size_t whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole) {
    return sign + digits + std::string(whole - digits.size(), '0') + ".0";
  }
  return sign + digits.substr(0, whole) + "." + digits.substr(whole);
}

std::string quoted(const std::string& text) {
  const bool single = text.find('\'') == std::string::npos || text.find('"') != std::string::npos;
  const char quote = single ? '\'' : '"';
  std::string out(1, quote);
  for (char c : text) {
    if (c == '\\' || c == quote) {
      out += '\\';
    }
    out += c;
  }
  return out + quote;
}

std::string refusal(
    const std::string& field,
    const std::string& value,
    const std::string& rule,
    const std::string& works) {
  const std::string message = field + "=" + value + ": " + rule + ".";
  return works.empty() ? message : message + " " + works + ".";
}

std::string human_bytes(double count) {
  char buffer[64];
  if (count < 1024) {
    std::snprintf(buffer, sizeof buffer, "%.0f B", count);
    return buffer;
  }
  const char* unit = "TiB";
  count /= 1024;
  for (const char* name : {"KiB", "MiB", "GiB"}) {
    if (count < 1024) {
      unit = name;
      break;
    }
    count /= 1024;
  }
  std::snprintf(buffer, sizeof buffer, "%.1f %s", count, unit);
  return buffer;
}

}  // namespace mha
