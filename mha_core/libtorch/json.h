// As much JSON as the header of a safetensors file needs, read with a bound on every step.
#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace mha::json {

/// What is wrong, and at which byte.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A text, a whole number of at least 0, a list, or a dictionary.
struct Value {
  enum class Kind { text, number, list, dictionary } kind = Kind::number;
  std::string text;
  uint64_t number = 0;
  std::vector<Value> list;
  std::map<std::string, Value> dictionary;
};

/// Reads the whole text. Throws Error for anything that is not such JSON: another kind of value, a
/// key named twice, nesting of more than a few levels, or bytes left over.
Value parse(const std::string& text);

/// The text as a JSON string, with its quotes.
std::string written(const std::string& text);

}  // namespace mha::json
