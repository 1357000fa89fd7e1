#include "arguments.h"

#include <charconv>
#include <limits>
#include <locale>
#include <sstream>

#include "words.h"

namespace mha {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

Arguments::Arguments(
    const std::vector<std::string>& given,
    const std::set<std::string>& valued,
    const std::set<std::string>& flags,
    const std::vector<std::string>& positional) {
  size_t place = 0;
  for (size_t i = 0; i < given.size(); ++i) {
    std::string name = given[i];
    std::optional<std::string> value;
    if (name.rfind("--", 0) == 0 && name.find('=') != std::string::npos) {
      value = name.substr(name.find('=') + 1);
      name = name.substr(0, name.find('='));
    }
    if (flags.count(name) != 0) {
      if (value) {
        throw Refused("argument " + name + ": ignored explicit argument " + quoted(*value));
      }
      found_[name] = "";
    } else if (valued.count(name) != 0) {
      if (!value) {
        // What begins with -- is the next option; a negative number is a value.
        if (i + 1 == given.size() || given[i + 1].rfind("--", 0) == 0) {
          throw Refused("argument " + name + ": expected one argument");
        }
        value = given[++i];
      }
      found_[name] = *value;
    } else if (name.rfind("--", 0) != 0 && place < positional.size()) {
      found_[positional[place++]] = given[i];
    } else {
      throw Refused("unrecognized arguments: " + given[i]);
    }
  }
  if (place < positional.size()) {
    std::string missing;
    for (size_t i = place; i < positional.size(); ++i) {
      missing += (i == place ? "" : ", ") + positional[i];
    }
    throw Refused("the following arguments are required: " + missing);
  }
}

bool Arguments::has(const std::string& name) const {
  return found_.count(name) != 0;
}

std::string Arguments::text(const std::string& name, const std::string& otherwise) const {
  const auto found = found_.find(name);
  return found == found_.end() ? otherwise : found->second;
}

int64_t Arguments::integer(const std::string& name, int64_t otherwise) const {
  if (!has(name)) {
    return otherwise;
  }
  const auto given = text(name);
  int64_t value = 0;
  const char* end = given.data() + given.size();
  const auto read = std::from_chars(given.data(), end, value);
  if (read.ec == std::errc::result_out_of_range) {
    throw Refused("argument " + name + ": must fit 64 bits, not " + quoted(given));
  }
  if (read.ec != std::errc() || read.ptr != end) {
    throw Refused("argument " + name + ": must be an integer, not " + quoted(given));
  }
  return value;
}

double Arguments::number(const std::string& name, double otherwise) const {
  if (!has(name)) {
    return otherwise;
  }
  const auto given = text(name);
  // Not from_chars, which many standard libraries have for integers alone; nor strtod, which reads
  // with the comma of the user's language.
  std::istringstream read(given);
  read.imbue(std::locale::classic());
  double value = 0.0;
  if (given == "inf" || given == "-inf") {
    value = given[0] == '-' ? -kInfinity : kInfinity;
  } else if (
      !(read >> std::noskipws >> value) ||
      read.peek() != std::istringstream::traits_type::eof()) {
    throw Refused("argument " + name + ": must be a number, not " + quoted(given));
  }
  return value;
}

}  // namespace mha
