// Multi-head attention in LibTorch: the same steps, operators and numbers as mha_core/attention.py.
//
// Shapes: batch, time, d_model; h heads of width d_k = d_model / h. Tq and Tk are the numbers of
// queries and keys where they differ; in the module both are time.
#pragma once

#include <torch/arg.h>
#include <torch/nn/cloneable.h>
#include <torch/nn/modules/common.h>
#include <torch/nn/modules/container/any_value.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <functional>
#include <limits>
#include <optional>
#include <ostream>
#include <string>
#include <tuple>

namespace mha {

/// Called with (step id, tensor) at every step; what it returns goes on to the next step. The ids
/// are those of mha_core/steps.py: input, project_q, ..., scores, scale, mask, softmax, ..., output.
using Observe = std::function<torch::Tensor(const std::string&, const torch::Tensor&)>;

/// How `attend` runs.
struct AttendOptions {
  /// Broadcastable to (batch, h, Tq, Tk). Boolean, true = may attend (as
  /// torch::scaled_dot_product_attention; the opposite of torch::nn::MultiheadAttention, see
  /// masks::flip), or floating point, added to the scaled scores.
  TORCH_ARG(torch::Tensor, mask);
  /// Query i sees keys 0..i, aligned upper-left where Tq differs from Tk.
  TORCH_ARG(bool, causal) = false;
  /// Factor on the scores; none divides by sqrt(d_k).
  TORCH_ARG(std::optional<double>, scale);
  /// Probability of dropping a weight, after softmax.
  TORCH_ARG(double, dropout) = 0.0;
  /// What a masked score becomes: -inf replaces it, a finite value is added to it.
  TORCH_ARG(double, fill) = -std::numeric_limits<double>::infinity();
  /// Randomness of the dropout; torch's global one when none.
  TORCH_ARG(std::optional<torch::Generator>, generator);
  /// Called at the steps scores, scale, mask, softmax, dropout, weighted_values.
  TORCH_ARG(Observe, observe);
};

/// softmax(q kᵀ / sqrt(d_k) + mask) v for every head (Vaswani et al. 2017, equation 1).
///
/// q (batch, h, Tq, d_k), k (batch, h, Tk, d_k), v (batch, h, Tk, d_v). Returns the output
/// (batch, h, Tq, d_v) and the weights (batch, h, Tq, Tk) before dropout. A query with no visible
/// key has weights and output 0. Throws c10::ValueError for shapes that do not fit together and
/// values out of range.
std::tuple<torch::Tensor, torch::Tensor> attend(
    const torch::Tensor& q,
    const torch::Tensor& k,
    const torch::Tensor& v,
    const AttendOptions& options = {});

/// How a MultiHeadAttention is made: MultiHeadAttentionOptions(512, 8).dropout(0.1).bias(false).
struct MultiHeadAttentionOptions {
  MultiHeadAttentionOptions(int64_t d_model, int64_t heads) : d_model_(d_model), heads_(heads) {}

  /// Width of input and output.
  TORCH_ARG(int64_t, d_model);
  /// Number of heads; divides d_model.
  TORCH_ARG(int64_t, heads);
  /// Whether the four projections have a bias.
  TORCH_ARG(bool, bias) = true;
  /// Probability of dropping a weight, in training only.
  TORCH_ARG(double, dropout) = 0.0;
  /// Factor on the scores; none is 1/sqrt(d_k).
  TORCH_ARG(std::optional<double>, scale);
  /// What a masked score becomes; see AttendOptions.
  TORCH_ARG(double, fill) = -std::numeric_limits<double>::infinity();
  /// Of the parameters; torch's default when none.
  TORCH_ARG(std::optional<torch::Dtype>, dtype);
};

/// What one forward takes besides x.
struct MultiHeadAttentionForwardOptions {
  /// Each position sees itself and those before it.
  TORCH_ARG(bool, causal) = false;
  /// As in AttendOptions.
  TORCH_ARG(torch::Tensor, mask);
  /// Randomness of the dropout; torch's global one when none.
  TORCH_ARG(std::optional<torch::Generator>, generator);
  /// Called at every step.
  TORCH_ARG(Observe, observe);
};

/// Multi-head self-attention with one flat (d_model, d_model) matrix a projection.
///
/// Head i owns columns i*d_k to (i+1)*d_k - 1 of the projected tensor: a view, not a matrix of its
/// own. Throws c10::ValueError where heads does not divide d_model, or a value is out of range.
class MultiHeadAttentionImpl : public torch::nn::Cloneable<MultiHeadAttentionImpl> {
 public:
  MultiHeadAttentionImpl(int64_t d_model, int64_t heads)
      : MultiHeadAttentionImpl(MultiHeadAttentionOptions(d_model, heads)) {}
  explicit MultiHeadAttentionImpl(const MultiHeadAttentionOptions& options);

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  /// (batch, time, d_model) -> (batch, time, d_model).
  torch::Tensor forward(
      const torch::Tensor& x, const MultiHeadAttentionForwardOptions& forward_options = {});

  MultiHeadAttentionOptions options;
  torch::nn::Linear W_q{nullptr};
  torch::nn::Linear W_k{nullptr};
  torch::nn::Linear W_v{nullptr};
  torch::nn::Linear W_o{nullptr};

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(MultiHeadAttentionForwardOptions())})

 private:
  void check_input(const torch::Tensor& x) const;
};

TORCH_MODULE(MultiHeadAttention);

}  // namespace mha
