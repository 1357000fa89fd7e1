#include "multi_head_attention.h"

#include <cmath>

#include "checks.h"
#include "masks.h"
#include "words.h"

namespace mha {
namespace {

torch::Tensor unobserved(const std::string& /*step*/, const torch::Tensor& tensor) {
  return tensor;
}

/// As Python's nn.Linear computes it. LibTorch's own Linear::forward multiplies and then adds the
/// bias, two roundings where this fused call has one: its last bit differs.
torch::Tensor project(const torch::nn::Linear& layer, const torch::Tensor& x) {
  return torch::linear(x, layer->weight, layer->bias);
}

/// (batch, time, d_model) -> (batch, time, h, d_k). A view: no byte moves.
torch::Tensor split_heads(const torch::Tensor& x, int64_t heads) {
  return x.view({x.size(0), x.size(1), heads, x.size(2) / heads});
}

/// (batch, time, h, d_k) <-> (batch, h, time, d_k). A view with two strides exchanged.
torch::Tensor swap_time_and_heads(const torch::Tensor& x) {
  return x.transpose(1, 2);
}

/// (batch, time, h, d_k) -> (batch, time, d_model). After a transpose the heads of one position do
/// not lie side by side in memory, so `view` alone throws; `contiguous()` copies them there first.
torch::Tensor merge_heads(const torch::Tensor& x) {
  return x.contiguous().view({x.size(0), x.size(1), x.size(2) * x.size(3)});
}

/// Zeroes a share of the weights and scales the rest up. torch::dropout takes no generator.
torch::Tensor drop(
    const torch::Tensor& weights, double dropout, const std::optional<torch::Generator>& generator) {
  const auto keep = torch::empty_like(weights).bernoulli_(1.0 - dropout, generator);
  return weights * keep / (1.0 - dropout);
}

std::string shape_text(const torch::Tensor& tensor) {
  return tuple_text(tensor.sizes().vec());
}

void check_qkv(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v) {
  const std::pair<const char*, const torch::Tensor&> named[] = {{"q", q}, {"k", k}, {"v", v}};
  for (const auto& [name, tensor] : named) {
    TORCH_CHECK_VALUE(
        tensor.dim() == 4,
        refusal(name, shape_text(tensor), "must have 4 axes (batch, h, time, width)"));
  }
  TORCH_CHECK_VALUE(
      q.size(0) == k.size(0) && q.size(1) == k.size(1) && q.size(3) == k.size(3),
      refusal(
          "k",
          shape_text(k),
          "must have the batch, h and d_k of q=" + shape_text(q),
          "Nearest that works: " + tuple_text({q.size(0), q.size(1), k.size(2), q.size(3)})));
  TORCH_CHECK_VALUE(
      k.size(0) == v.size(0) && k.size(1) == v.size(1) && k.size(2) == v.size(2),
      refusal(
          "v",
          shape_text(v),
          "must have the batch, h and time of k=" + shape_text(k),
          "Nearest that works: " + tuple_text({k.size(0), k.size(1), k.size(2), v.size(3)})));
}

void check_fill_of(double fill, torch::Dtype dtype) {
  const std::string prefix = "torch.";
  check_fill(fill, masks::lowest(dtype), masks::dtype_text(dtype).substr(prefix.size()));
}

}  // namespace

std::tuple<torch::Tensor, torch::Tensor> attend(
    const torch::Tensor& q,
    const torch::Tensor& k,
    const torch::Tensor& v,
    const AttendOptions& options) {
  check_qkv(q, k, v);
  check_dropout(options.dropout());
  check_scale(options.scale());
  check_fill_of(options.fill(), q.scalar_type());
  const Observe see = options.observe() ? options.observe() : Observe(unobserved);
  const auto d_k = static_cast<double>(q.size(-1));
  // (batch, h, Tq, d_k) x (batch, h, d_k, Tk) -> (batch, h, Tq, Tk)
  auto scores = see("scores", q.matmul(k.transpose(-2, -1)));
  scores = see("scale", options.scale() ? scores * *options.scale() : scores / std::sqrt(d_k));
  // The full mask: every boolean joined before it meets the scores.
  torch::Tensor allowed;
  if (options.causal()) {
    allowed = masks::causal(q.size(-2), k.size(-2), q.device());
  }
  const auto full = masks::combine(allowed, options.mask());
  const masks::Fill filling{options.fill()};
  if (full.defined()) {
    masks::check_shape(full, scores.sizes());
    scores = see("mask", filling.apply(scores, full));
  }
  // Causal alone leaves every query its first key; only a mask can leave a row without any.
  const auto weights = see(
      "softmax", filling.softmax(scores, options.mask().defined() ? full : torch::Tensor()));
  scores.reset();  // as large as the weights, and done with
  auto dropped = weights;
  if (options.dropout() > 0.0) {
    dropped = see("dropout", drop(weights, options.dropout(), options.generator()));
  }
  // (batch, h, Tq, Tk) x (batch, h, Tk, d_v) -> (batch, h, Tq, d_v)
  const auto output = see("weighted_values", dropped.matmul(v));
  return {output, weights};
}

MultiHeadAttentionImpl::MultiHeadAttentionImpl(const MultiHeadAttentionOptions& options)
    : options(options) {
  // The class's own, by name: a virtual call would not reach a derived one from here.
  MultiHeadAttentionImpl::reset();
}

void MultiHeadAttentionImpl::reset() {
  const auto dtype = options.dtype().value_or(torch::get_default_dtype_as_scalartype());
  check_widths(options.d_model(), options.heads());
  check_dropout(options.dropout());
  check_scale(options.scale());
  check_fill_of(options.fill(), dtype);
  const auto flat = torch::nn::LinearOptions(options.d_model(), options.d_model())
                        .bias(options.bias());
  W_q = register_module("W_q", torch::nn::Linear(flat));
  W_k = register_module("W_k", torch::nn::Linear(flat));
  W_v = register_module("W_v", torch::nn::Linear(flat));
  W_o = register_module("W_o", torch::nn::Linear(flat));
  to(dtype);
}

void MultiHeadAttentionImpl::pretty_print(std::ostream& stream) const {
  stream << "mha::MultiHeadAttention(d_model=" << options.d_model()
         << ", heads=" << options.heads() << ", bias=" << (options.bias() ? "true" : "false")
         << ", dropout=" << options.dropout() << ")";
}

torch::Tensor MultiHeadAttentionImpl::forward(
    const torch::Tensor& x, const MultiHeadAttentionForwardOptions& forward_options) {
  check_input(x);
  const int64_t heads = options.heads();
  const Observe see =
      forward_options.observe() ? forward_options.observe() : Observe(unobserved);
  const auto seen = see("input", x);

  // 1 project: one flat matrix each
  auto q = see("project_q", project(W_q, seen));
  auto k = see("project_k", project(W_k, seen));
  auto v = see("project_v", project(W_v, seen));
  // 2 split: (batch, time, d_model) -> (batch, time, h, d_k)
  q = see("split_q", split_heads(q, heads));
  k = see("split_k", split_heads(k, heads));
  v = see("split_v", split_heads(v, heads));
  // 3 transpose: (batch, time, h, d_k) -> (batch, h, time, d_k)
  q = see("transpose_q", swap_time_and_heads(q));
  k = see("transpose_k", swap_time_and_heads(k));
  v = see("transpose_v", swap_time_and_heads(v));
  // 4 scores, scale, mask; 5 softmax, dropout; 6 weighted values
  auto out = std::get<0>(attend(
      q, k, v,
      AttendOptions()
          .mask(forward_options.mask())
          .causal(forward_options.causal())
          .scale(options.scale())
          .dropout(is_training() ? options.dropout() : 0.0)
          .fill(options.fill())
          .generator(forward_options.generator())
          .observe(forward_options.observe())));
  // 7 transpose back: (batch, h, time, d_k) -> (batch, time, h, d_k)
  out = see("transpose_back", swap_time_and_heads(out));
  // 8 merge: (batch, time, h, d_k) -> (batch, time, d_model)
  out = see("merge", merge_heads(out));
  // 9 output
  return see("output", project(W_o, out));
}

void MultiHeadAttentionImpl::check_input(const torch::Tensor& x) const {
  TORCH_CHECK_VALUE(
      x.dim() == 3 && x.size(-1) == options.d_model(),
      refusal(
          "x",
          shape_text(x),
          "must be (batch, time, d_model) with d_model=" + std::to_string(options.d_model())));
  TORCH_CHECK_VALUE(
      x.size(0) != 0 && x.size(1) != 0,
      refusal("x", shape_text(x), "must have at least one batch item and one position"));
}

}  // namespace mha
