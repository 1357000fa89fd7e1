// The module as a user of LibTorch meets it: options, a mask, an observer, a Sequential, a copy.
#include <torch/nn/modules/container/sequential.h>

#include <iostream>

#include "masks.h"
#include "multi_head_attention.h"

int main() {
  torch::manual_seed(0);
  torch::NoGradGuard no_grad;
  mha::MultiHeadAttention attention(
      mha::MultiHeadAttentionOptions(/*d_model=*/32, /*heads=*/4).dropout(0.1).bias(true));
  attention->eval();
  std::cout << attention << "\n";

  const auto x = torch::randn({2, 6, 32});  // (batch, time, d_model)
  // The second sequence has 4 positions; the rest is padding.
  const auto keep = mha::masks::padding({6, 4}, /*time=*/6);
  attention(
      x, mha::MultiHeadAttentionForwardOptions().causal(true).mask(keep).observe(
             [](const std::string& step, const torch::Tensor& tensor) {
               std::cout << step << " " << tensor.sizes() << "\n";
               return tensor;  // what is returned goes on to the next step
             }));

  // In a Sequential the options of forward are the defaults; a clone has weights of its own.
  torch::nn::Sequential stack(attention);
  const auto copy = std::dynamic_pointer_cast<mha::MultiHeadAttentionImpl>(attention->clone());
  attention->W_o->weight.zero_();
  const auto after = stack->forward(x) - attention->W_o->bias;
  std::cout << "original " << after.abs().max().item<float>() << "\n";
  std::cout << "copy differs " << (copy->forward(x) - stack->forward(x)).any().item<bool>() << "\n";

  try {
    mha::MultiHeadAttention(mha::MultiHeadAttentionOptions(30, 4));
  } catch (const c10::ValueError& error) {
    std::cout << error.what_without_backtrace() << "\n";
  }
}
