#include "masks.h"

#include <cmath>

#include "words.h"

namespace mha::masks {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool is_boolean(const torch::Tensor& mask) {
  return mask.scalar_type() == torch::kBool;
}

void check_kind(const torch::Tensor& mask) {
  TORCH_CHECK_VALUE(
      is_boolean(mask) || mask.is_floating_point(),
      refusal(
          "mask",
          quoted(dtype_text(mask.scalar_type())),
          "must be boolean (True = may attend) or floating point (added to the scores)",
          "Nearest that works: mask.bool()"));
}

}  // namespace

torch::Tensor causal(int64_t time_q, int64_t time_k, torch::Device device) {
  return torch::ones({time_q, time_k}, torch::dtype(torch::kBool).device(device)).tril();
}

torch::Tensor padding(const std::vector<int64_t>& lengths, int64_t time, torch::Device device) {
  for (int64_t length : lengths) {
    TORCH_CHECK_VALUE(
        0 <= length && length <= time,
        refusal(
            "lengths",
            std::to_string(length),
            "must be an integer from 0 to time=" + std::to_string(time)));
  }
  auto ends = torch::tensor(lengths, torch::dtype(torch::kInt64)).to(device);
  auto keep = torch::arange(time, ends.options()) < ends.unsqueeze(1);
  return keep.unsqueeze(1).unsqueeze(1);
}

torch::Tensor flip(const torch::Tensor& mask) {
  TORCH_CHECK_VALUE(
      is_boolean(mask),
      refusal("mask", quoted(dtype_text(mask.scalar_type())), "must be boolean to be flipped"));
  return ~mask;
}

torch::Tensor combine(const torch::Tensor& one, const torch::Tensor& other) {
  torch::Tensor keep;
  torch::Tensor bias;
  for (const auto& mask : {one, other}) {
    if (!mask.defined()) {
      continue;
    }
    check_kind(mask);
    if (is_boolean(mask)) {
      keep = keep.defined() ? keep & mask : mask;
    } else {
      bias = bias.defined() ? bias + mask : mask;
    }
  }
  if (!bias.defined() || !keep.defined()) {
    return bias.defined() ? bias : keep;
  }
  return bias.masked_fill(~keep, -kInfinity);
}

void check_shape(const torch::Tensor& mask, torch::IntArrayRef shape) {
  bool fits = mask.dim() <= static_cast<int64_t>(shape.size());
  for (int64_t axis = 1; fits && axis <= mask.dim(); ++axis) {
    const int64_t size = mask.size(-axis);
    fits = size == 1 || size == shape[shape.size() - static_cast<size_t>(axis)];
  }
  const int64_t batch = shape[0];
  const int64_t time_q = shape[2];
  const int64_t time_k = shape[3];
  TORCH_CHECK_VALUE(
      fits,
      refusal(
          "mask",
          tuple_text(mask.sizes().vec()),
          "must broadcast to (batch, h, Tq, Tk) = " + tuple_text(shape.vec()),
          "These work: " + tuple_text({time_q, time_k}) + ", " +
              tuple_text({batch, 1, time_q, time_k}) + ", " + tuple_text({batch, 1, 1, time_k})));
}

std::string dtype_text(torch::Dtype dtype) {
  switch (dtype) {
    case torch::kFloat32: return "torch.float32";
    case torch::kFloat64: return "torch.float64";
    case torch::kBFloat16: return "torch.bfloat16";
    case torch::kFloat16: return "torch.float16";
    case torch::kInt64: return "torch.int64";
    case torch::kInt32: return "torch.int32";
    case torch::kInt16: return "torch.int16";
    case torch::kInt8: return "torch.int8";
    case torch::kUInt8: return "torch.uint8";
    case torch::kBool: return "torch.bool";
    case torch::kComplexFloat: return "torch.complex64";
    case torch::kComplexDouble: return "torch.complex128";
    default: return std::string("torch.") + c10::toString(dtype);
  }
}

double lowest(torch::Dtype dtype) {
  switch (dtype) {
    case torch::kFloat64: return std::numeric_limits<double>::lowest();
    case torch::kBFloat16: return std::numeric_limits<c10::BFloat16>::lowest();
    case torch::kFloat16: return std::numeric_limits<c10::Half>::lowest();
    default: return std::numeric_limits<float>::lowest();
  }
}

torch::Tensor Fill::apply(const torch::Tensor& scores, const torch::Tensor& mask) const {
  if (!is_boolean(mask)) {
    return scores + mask.to(scores.scalar_type());
  }
  if (value == -kInfinity) {
    return scores.masked_fill(~mask, value);
  }
  const auto bias = torch::zeros_like(mask, scores.scalar_type()).masked_fill(~mask, value);
  const double least = lowest(scores.scalar_type());
  if (value > least / 2) {
    return scores + bias;
  }
  // So near the lowest value the sum itself can be -inf, and a row of only -inf is NaN.
  return (scores + bias).clamp_(least, std::nullopt);
}

torch::Tensor Fill::softmax(const torch::Tensor& scores, const torch::Tensor& mask) const {
  if (!mask.defined() || (is_boolean(mask) && value != -kInfinity)) {
    return scores.softmax(-1);
  }
  // Rows of only -inf would be NaN (0/0). An additive mask can also reach -inf by rounding, so
  // there the scores themselves tell.
  const auto dead = is_boolean(mask)
      ? ~mask.any(-1, /*keepdim=*/true)
      : scores.detach().amax(-1, /*keepdim=*/true) == -kInfinity;
  if (!dead.any().item<bool>()) {
    return scores.softmax(-1);
  }
  return scores.masked_fill(dead, 0.0).softmax(-1).masked_fill(dead, 0.0);
}

}  // namespace mha::masks
