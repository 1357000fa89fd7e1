// Masks: causal, padding, their combination, and the fill: mha_core/masks.py.
//
// A boolean mask says what MAY be attended: true in row i, column j means query i attends to key
// j, as in torch::scaled_dot_product_attention. torch::nn::MultiheadAttention means the opposite
// (true = ignore): `flip` converts, both ways. A floating-point mask is added to the scores.
#pragma once

#include <torch/types.h>

#include <limits>
#include <string>
#include <vector>

namespace mha::masks {

/// Each query sees its own position and those before it, aligned upper-left as torch's is_causal.
/// Boolean (time_q, time_k), true = may attend.
torch::Tensor causal(int64_t time_q, int64_t time_k, torch::Device device = torch::kCPU);

/// Each query sees the first `lengths[b]` keys of its batch item. Boolean (batch, 1, 1, time).
torch::Tensor padding(
    const std::vector<int64_t>& lengths, int64_t time, torch::Device device = torch::kCPU);

/// Converts a boolean mask between true = may attend and true = ignore, either way.
torch::Tensor flip(const torch::Tensor& mask);

/// One mask that applies both; undefined where neither is set. Booleans are joined with AND;
/// beside a floating-point mask the result is additive.
torch::Tensor combine(const torch::Tensor& one, const torch::Tensor& other);

/// Refuses a mask that does not broadcast to `shape` = (batch, h, Tq, Tk).
void check_shape(const torch::Tensor& mask, torch::IntArrayRef shape);

/// "torch.float32", as Python names it.
std::string dtype_text(torch::Dtype dtype);

/// The lowest finite value of a floating-point dtype.
double lowest(torch::Dtype dtype);

/// How a mask enters the scores. -inf replaces a masked score; a finite value is added to it, as
/// textbook code adds -1e9.
struct Fill {
  double value = -std::numeric_limits<double>::infinity();

  /// Masks `scores` (batch, h, Tq, Tk) with a boolean or additive `mask`.
  torch::Tensor apply(const torch::Tensor& scores, const torch::Tensor& mask) const;

  /// Softmax over the keys; a row that sees no key gives zeros, in value and gradient. `mask` is
  /// undefined where no row can be without a key.
  torch::Tensor softmax(const torch::Tensor& scores, const torch::Tensor& mask) const;
};

}  // namespace mha::masks
