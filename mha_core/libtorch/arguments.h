// Arguments of a command line, refused in argparse's words.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace mha {

/// An argument that is refused, in one sentence.
struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Arguments {
 public:
  /// `valued` are options that take a value, `flags` those that take none, `positional` the names
  /// of what stands without a name, all of it needed.
  Arguments(
      const std::vector<std::string>& given,
      const std::set<std::string>& valued,
      const std::set<std::string>& flags,
      const std::vector<std::string>& positional);

  bool has(const std::string& name) const;
  std::string text(const std::string& name, const std::string& otherwise = "") const;
  int64_t integer(const std::string& name, int64_t otherwise) const;
  double number(const std::string& name, double otherwise) const;

 private:
  std::map<std::string, std::string> found_;
};

}  // namespace mha
