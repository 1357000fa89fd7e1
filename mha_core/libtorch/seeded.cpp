#include "seeded.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include <cmath>

#include "checks.h"
#include "sha256.h"

namespace mha {

torch::Generator generator(int64_t seed, const std::string& stream) {
  check_seed(seed);
  const auto digest = sha256(std::to_string(seed) + "/" + stream);
  uint64_t number = 0;
  for (size_t i = 0; i < 7; ++i) {
    number = number << 8 | digest[i];
  }
  return at::detail::createCPUGenerator(number);
}

MultiHeadAttention seeded_module(const MultiHeadAttentionOptions& options, int64_t seed) {
  auto global = at::globalContext().defaultGenerator(torch::kCPU);
  const auto before = global.get_state();
  MultiHeadAttention module(options);
  global.set_state(before);

  torch::NoGradGuard no_grad;
  const int64_t width = options.d_model();
  const auto d_model = static_cast<double>(width);
  // torch's xavier_uniform_, in its own order of operations.
  const double bound = std::sqrt(3.0) * std::sqrt(2.0 / (d_model + d_model));
  auto draws = generator(seed, "weights");
  for (auto& layer : {module->W_q, module->W_k, module->W_v, module->W_o}) {
    layer->weight.copy_(torch::empty({width, width}, torch::kFloat32).uniform_(-bound, bound, draws));
  }
  if (options.bias()) {
    draws = generator(seed, "biases");
    const double limit = 1.0 / std::sqrt(d_model);
    for (auto& layer : {module->W_q, module->W_k, module->W_v, module->W_o}) {
      layer->bias.copy_(torch::empty({width}, torch::kFloat32).uniform_(-limit, limit, draws));
    }
  }
  module->train(options.dropout() > 0.0);
  return module;
}

torch::Tensor random_input(
    int64_t batch, int64_t time, int64_t d_model, int64_t seed, torch::Dtype dtype) {
  return torch::randn({batch, time, d_model}, generator(seed, "input"), torch::kFloat32).to(dtype);
}

}  // namespace mha
