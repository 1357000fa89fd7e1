#include "cases.h"

#include <torch/nn/modules/activation.h>

#include "multi_head_attention.h"
#include "seeded.h"
#include "words.h"

namespace mha {
namespace {

bool has(const State& given, const std::string& name) {
  return given.count(name) != 0;
}

const torch::Tensor& needed(const State& given, const std::string& name) {
  const auto found = given.find(name);
  TORCH_CHECK_VALUE(found != given.end(), refusal(name, "None", "must be in the file"));
  return found->second;
}

torch::Tensor optional(const State& given, const std::string& name) {
  const auto found = given.find(name);
  return found == given.end() ? torch::Tensor() : found->second;
}

template <typename Number>
Number number(const State& given, const std::string& name, Number otherwise) {
  const auto found = given.find(name);
  if (found == given.end()) {
    return otherwise;
  }
  TORCH_CHECK_VALUE(
      found->second.numel() == 1,
      refusal(name, tuple_text(found->second.sizes().vec()), "must be one number"));
  return found->second.item<Number>();
}

std::optional<double> scale_of(const State& given) {
  return has(given, "scale") ? std::optional<double>(number<double>(given, "scale", 0.0))
                             : std::nullopt;
}

std::optional<torch::Generator> draws_of(const State& given) {
  return has(given, "seed")
      ? std::optional<torch::Generator>(generator(number<int64_t>(given, "seed", 0), "dropout"))
      : std::nullopt;
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

State run_attend(const State& given) {
  const auto [output, weights] = attend(
      needed(given, "q"), needed(given, "k"), needed(given, "v"),
      AttendOptions()
          .mask(optional(given, "mask"))
          .causal(number<bool>(given, "causal", false))
          .scale(scale_of(given))
          .dropout(number<double>(given, "dropout", 0.0))
          .fill(number<double>(given, "fill", -kInfinity))
          .generator(draws_of(given)));
  return {{"output", output}, {"weights", weights}};
}

/// LibTorch's own module, whose first axis is time: there and back by transpose(0, 1).
State run_torch(const State& given) {
  torch::NoGradGuard no_grad;
  const auto& x = needed(given, "x");
  const bool bias = has(given, "W_q.bias");
  torch::nn::MultiheadAttention module(
      torch::nn::MultiheadAttentionOptions(x.size(-1), number<int64_t>(given, "heads", 1))
          .bias(bias));
  module->to(x.scalar_type());
  const auto stacked = [&given](const std::string& what) {
    return torch::cat(
        {needed(given, "W_q." + what), needed(given, "W_k." + what), needed(given, "W_v." + what)});
  };
  module->in_proj_weight.copy_(stacked("weight"));
  module->out_proj->weight.copy_(needed(given, "W_o.weight"));
  if (bias) {
    module->in_proj_bias.copy_(stacked("bias"));
    module->out_proj->bias.copy_(needed(given, "W_o.bias"));
  }
  module->eval();
  const auto first = x.transpose(0, 1);
  auto [output, weights] = module->forward(
      first, first, first, optional(given, "key_padding_mask"), /*need_weights=*/true,
      optional(given, "mask"), /*average_attn_weights=*/false);
  return {{"output", output.transpose(0, 1)}, {"weights", weights}};
}

State run_module(const State& given) {
  const bool differentiate = has(given, "gradient");
  // A leaf of its own, so that its gradient is kept; without one, x as it came.
  auto x = needed(given, "x");
  if (differentiate) {
    x = x.detach().clone().requires_grad_();
  }
  const int64_t d_model = has(given, "W_q.weight") ? needed(given, "W_q.weight").size(0)
                                                   : number<int64_t>(given, "d_model", 0);
  const double dropout = number<double>(given, "dropout", 0.0);
  MultiHeadAttention module(MultiHeadAttentionOptions(d_model, number<int64_t>(given, "heads", 1))
                                .bias(has(given, "W_q.bias"))
                                .dropout(dropout)
                                .scale(scale_of(given))
                                .fill(number<double>(given, "fill", -kInfinity))
                                .dtype(x.scalar_type()));
  module->train(dropout > 0.0);
  {
    torch::NoGradGuard no_grad;
    for (auto& item : module->named_parameters()) {
      const auto& weight = needed(given, item.key());
      TORCH_CHECK_VALUE(
          weight.sizes() == item.value().sizes() &&
              weight.scalar_type() == item.value().scalar_type(),
          refusal(
              item.key(), tuple_text(weight.sizes().vec()),
              "must be " + tuple_text(item.value().sizes().vec()) + ", in the dtype of x"));
      item.value().copy_(weight);
    }
  }
  State result;
  const auto observe = [&result](const std::string& step, const torch::Tensor& tensor) {
    result[step] = tensor.detach();
    return tensor;
  };
  torch::AutoGradMode mode(differentiate);
  const auto output = module->forward(
      x, MultiHeadAttentionForwardOptions()
             .causal(number<bool>(given, "causal", false))
             .mask(optional(given, "mask"))
             .generator(draws_of(given))
             .observe(observe));
  if (differentiate) {
    output.backward(needed(given, "gradient"));
    result["gradient/x"] = x.grad();
    for (const auto& item : module->named_parameters()) {
      result["gradient/" + item.key()] = item.value().grad();
    }
  }
  return result;
}

}  // namespace

State run_case(const State& given) {
  if (has(given, "torch")) {
    return run_torch(given);
  }
  return has(given, "q") ? run_attend(given) : run_module(given);
}

}  // namespace mha
