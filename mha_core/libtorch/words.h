// Errors in the words of mha_core/errors.py: field, value, rule, and the nearest that works.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mha {

/// A shape as Python writes a tuple: "(2, 6, 32)", "(6,)", "()".
std::string tuple_text(const std::vector<int64_t>& shape);

/// A float as Python's repr writes it: the fewest digits that read back as the same number.
std::string float_text(double value);

/// A text as Python's repr writes it: 'text'.
std::string quoted(const std::string& text);

/// "1, 2, 4"
std::string joined(const std::vector<int64_t>& numbers, const std::string& between = ", ");

/// "field=value: rule. works." What TORCH_CHECK_VALUE throws, and Python's ConfigError says.
std::string refusal(
    const std::string& field,
    const std::string& value,
    const std::string& rule,
    const std::string& works = "");

/// Bytes with a binary unit: 512 B, 1.5 KiB, 2.0 GiB.
std::string human_bytes(double count);

}  // namespace mha
