// Seeded weights and inputs, the same numbers as mha_core/inputs.py draws.
#pragma once

#include <torch/types.h>

#include <string>

#include "multi_head_attention.h"

namespace mha {

/// A private generator for one purpose; `stream` keeps purposes apart.
torch::Generator generator(int64_t seed, const std::string& stream);

/// A module with seeded weights: Xavier uniform matrices, biases uniform in ±1/sqrt(d_model), drawn
/// in float32 and then converted. In eval mode unless the options have dropout. Torch's global
/// generator is left as it was.
MultiHeadAttention seeded_module(const MultiHeadAttentionOptions& options, int64_t seed);

/// Standard normal (batch, time, d_model).
torch::Tensor random_input(
    int64_t batch, int64_t time, int64_t d_model, int64_t seed, torch::Dtype dtype);

}  // namespace mha
