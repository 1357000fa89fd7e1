// Tensors by name, in files: safetensors, and the .pt that torch.save writes of a state dict.
#pragma once

#include <torch/types.h>

#include <map>
#include <string>

namespace mha {

using State = std::map<std::string, torch::Tensor>;

/// The tensors of a file that ends in .safetensors, .pt or .pth, on the CPU. Nothing in the file
/// is executed. Throws c10::ValueError for a file that is missing, broken or of another kind.
State load_state(const std::string& path);

/// Writes what `load_state`, and Python's safetensors and torch.load, read back bit for bit.
void save_state(const std::string& path, const State& state);

/// The bytes of a safetensors file, and back: https://github.com/huggingface/safetensors#format
std::string to_safetensors(const State& state);
State from_safetensors(const std::string& bytes);

}  // namespace mha
