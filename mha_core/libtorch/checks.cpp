#include "checks.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "words.h"

namespace mha {
namespace {

bool is_size(int64_t value) {
  return 1 <= value && value <= kMaxSize;
}

/// Every head count that divides `number`, ascending.
std::vector<int64_t> divisors(int64_t number) {
  std::vector<int64_t> found;
  for (int64_t i = 1; i * i <= number; ++i) {
    if (number % i == 0) {
      found.push_back(i);
      if (i != number / i) {
        found.push_back(number / i);
      }
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

/// The divisors of `number`, nearest to `to` first.
std::vector<int64_t> nearest_divisors(int64_t number, int64_t to) {
  auto found = divisors(number);
  std::stable_sort(found.begin(), found.end(), [to](int64_t a, int64_t b) {
    return std::llabs(a - to) < std::llabs(b - to);
  });
  return found;
}

/// The multiples of `of` on either side of `number`, nearest first.
std::vector<int64_t> multiples(int64_t number, int64_t of) {
  const int64_t below = number - number % of;
  std::vector<int64_t> around;
  for (int64_t width : {below, below + of}) {
    if (is_size(width)) {
      around.push_back(width);
    }
  }
  std::stable_sort(around.begin(), around.end(), [number](int64_t a, int64_t b) {
    return std::llabs(a - number) < std::llabs(b - number);
  });
  return around;
}

/// `fits` turns the nearest size into the nearest that the other fields allow too.
void check_size(
    const std::string& field, int64_t value, const std::function<int64_t(int64_t)>& fits) {
  if (is_size(value)) {
    return;
  }
  const std::string rule =
      value < 1 ? "must be at least 1" : "must be at most " + std::to_string(kMaxSize);
  const int64_t nearest = fits(std::clamp<int64_t>(value, 1, kMaxSize));
  TORCH_CHECK_VALUE(
      false,
      refusal(
          field, std::to_string(value), rule, "Nearest that works: " + std::to_string(nearest)));
}

}  // namespace

void check_size(const std::string& field, int64_t value) {
  check_size(field, value, [](int64_t number) { return number; });
}

void check_widths(int64_t d_model, int64_t heads) {
  check_size("d_model", d_model, [heads](int64_t number) {
    return is_size(heads) ? multiples(number, heads)[0] : number;
  });
  check_size(
      "heads", heads, [d_model](int64_t number) { return nearest_divisors(d_model, number)[0]; });
  if (d_model % heads == 0) {
    return;
  }
  auto widths = multiples(d_model, heads);
  std::sort(widths.begin(), widths.end());
  // All divisors where they are few; otherwise the closest, so that the sentence stays one.
  auto listed = divisors(d_model);
  if (listed.size() > 12) {
    listed = nearest_divisors(d_model, heads);
    listed.resize(8);
    std::sort(listed.begin(), listed.end());
  }
  TORCH_CHECK_VALUE(
      false,
      refusal(
          "d_model",
          std::to_string(d_model),
          "must be a multiple of heads=" + std::to_string(heads) +
              ", so that d_k = d_model / heads is an integer",
          "Nearest that work: d_model " + joined(widths, " or ") + ", or heads " +
              joined(listed)));
}

void check_dropout(double value) {
  TORCH_CHECK_VALUE(
      0.0 <= value && value < 1.0,
      refusal(
          "dropout",
          float_text(value),
          "must be a probability, at least 0 and below 1",
          value >= 1.0 ? "Nearest that works: 0.9" : "Nearest that works: 0.0"));
}

void check_scale(const std::optional<double>& value) {
  TORCH_CHECK_VALUE(
      !value || std::isfinite(*value),
      refusal(
          "scale",
          float_text(value.value_or(0.0)),
          "must be a finite number, or None for 1/sqrt(d_k)",
          "Nearest that works: None"));
}

void check_fill(double value, double lowest, const std::string& dtype) {
  TORCH_CHECK_VALUE(
      value < 0,
      refusal(
          "fill",
          float_text(value),
          "must be a negative number or -inf",
          "Nearest that works: -inf"));
  if (std::isinf(value) || value >= lowest) {
    return;
  }
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%g", lowest);
  const std::string limit = buffer;
  TORCH_CHECK_VALUE(
      false,
      refusal(
          "fill",
          float_text(value),
          "does not fit " + dtype + ", whose lowest value is " + limit,
          "Nearest that works: -inf or " + limit));
}

void check_seed(int64_t value) {
  TORCH_CHECK_VALUE(
      value >= 0,
      refusal(
          "seed",
          std::to_string(value),
          "must be an integer from 0 to 2**63 - 1",
          "Nearest that works: 0"));
}

}  // namespace mha
