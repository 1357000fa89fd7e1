// What may run, and the nearest that would: mha_core/config.py and sizes.py.
//
// Every function throws c10::ValueError (through TORCH_CHECK_VALUE) with Python's own sentence;
// `what_without_backtrace()` is that sentence alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace mha {

/// Far beyond what any memory holds, and small enough that a refusal is quick to write.
constexpr int64_t kMaxSize = 2147483647;

/// Refuses a size outside 1 to kMaxSize.
void check_size(const std::string& field, int64_t value);

/// Refuses d_model and heads unless both are sizes and heads divides d_model.
void check_widths(int64_t d_model, int64_t heads);

/// Refuses what is no probability in [0, 1).
void check_dropout(double value);

/// Refuses a factor that is not finite; none is 1/sqrt(d_k).
void check_scale(const std::optional<double>& value);

/// Refuses what is neither negative nor -inf, or below the lowest value of the dtype.
void check_fill(double value, double lowest, const std::string& dtype);

/// Refuses a negative seed.
void check_seed(int64_t value);

}  // namespace mha
