#include "json.h"

#include <cstdio>
#include <limits>

namespace mha::json {
namespace {

constexpr int kDepth = 8;

void append_utf8(std::string& out, uint32_t code) {
  const auto put = [&out](uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0 | code >> 6);
    put(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    put(0xe0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  } else {
    put(0xf0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3f));
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  }
}

class Parser {
 public:
  explicit Parser(const std::string& text) : text_(text) {}

  Value whole() {
    Value found = value(0);
    skip();
    if (at_ != text_.size()) {
      fail("more after the end");
    }
    return found;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(what + " at byte " + std::to_string(at_));
  }

  void skip() {
    while (at_ < text_.size() && std::string(" \t\r\n").find(text_[at_]) != std::string::npos) {
      ++at_;
    }
  }

  char peek() {
    skip();
    if (at_ == text_.size()) {
      fail("the text ends early");
    }
    return text_[at_];
  }

  void take(char wanted) {
    if (peek() != wanted) {
      fail(std::string("expected ") + wanted);
    }
    ++at_;
  }

  /// Whether `wanted` is next; taken if so.
  bool next(char wanted) {
    if (peek() != wanted) {
      return false;
    }
    ++at_;
    return true;
  }

  Value value(int depth) {
    if (depth > kDepth) {
      fail("nested too deeply");
    }
    Value found;
    const char c = peek();
    if (c == '"') {
      found.kind = Value::Kind::text;
      found.text = string();
    } else if (c == '[') {
      found.kind = Value::Kind::list;
      list(found, depth);
    } else if (c == '{') {
      found.kind = Value::Kind::dictionary;
      dictionary(found, depth);
    } else {
      found.number = number();
    }
    return found;
  }

  void list(Value& found, int depth) {
    take('[');
    if (next(']')) {
      return;
    }
    do {
      found.list.push_back(value(depth + 1));
    } while (next(','));
    take(']');
  }

  void dictionary(Value& found, int depth) {
    take('{');
    if (next('}')) {
      return;
    }
    do {
      if (peek() != '"') {
        fail("expected a name");
      }
      const std::string name = string();
      take(':');
      if (!found.dictionary.emplace(name, value(depth + 1)).second) {
        fail("the name " + written(name) + " stands twice");
      }
    } while (next(','));
    take('}');
  }

  uint64_t number() {
    uint64_t found = 0;
    const size_t start = at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
      const auto digit = static_cast<uint64_t>(text_[at_] - '0');
      if (found > (std::numeric_limits<uint64_t>::max() - digit) / 10) {
        fail("a number too large");
      }
      found = found * 10 + digit;
      ++at_;
    }
    if (at_ == start) {
      fail("expected a text, a whole number, a list or a dictionary");
    }
    return found;
  }

  uint32_t hex4() {
    if (text_.size() - at_ < 4) {
      fail("the text ends early");
    }
    uint32_t code = 0;
    for (int i = 0; i < 4; ++i) {
      const size_t digit = std::string("0123456789abcdef").find(
          static_cast<char>(text_[at_] >= 'A' && text_[at_] <= 'F' ? text_[at_] + 32 : text_[at_]));
      if (digit == std::string::npos) {
        fail("expected four hexadecimal digits");
      }
      code = code * 16 + static_cast<uint32_t>(digit);
      ++at_;
    }
    return code;
  }

  uint32_t escaped_code() {
    const uint32_t code = hex4();
    if (code < 0xd800 || code > 0xdfff) {
      return code;
    }
    // Two surrogates make one character beyond the first 65,536.
    if (code > 0xdbff || text_.compare(at_, 2, "\\u") != 0) {
      fail("half a surrogate pair");
    }
    at_ += 2;
    const uint32_t low = hex4();
    if (low < 0xdc00 || low > 0xdfff) {
      fail("half a surrogate pair");
    }
    return 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  }

  std::string string() {
    take('"');
    std::string out;
    while (true) {
      if (at_ == text_.size()) {
        fail("the text ends early");
      }
      const char c = text_[at_++];
      if (c == '"') {
        return out;
      }
      if (static_cast<unsigned char>(c) < 0x20) {
        fail("a control character in a text");
      }
      if (c != '\\') {
        out += c;
        continue;
      }
      if (at_ == text_.size()) {
        fail("the text ends early");
      }
      const char escape = text_[at_++];
      const size_t known = std::string("\"\\/bfnrt").find(escape);
      if (known != std::string::npos) {
        out += "\"\\/\b\f\n\r\t"[known];
      } else if (escape == 'u') {
        append_utf8(out, escaped_code());
      } else {
        fail("an unknown escape");
      }
    }
  }

  const std::string& text_;
  size_t at_ = 0;
};

}  // namespace

Value parse(const std::string& text) {
  return Parser(text).whole();
}

std::string written(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char buffer[8];
      std::snprintf(buffer, sizeof buffer, "\\u%04x", static_cast<unsigned>(c));
      out += buffer;
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace mha::json
