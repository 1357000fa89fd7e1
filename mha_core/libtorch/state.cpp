#include "state.h"

#include <torch/csrc/jit/serialization/pickle.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "json.h"
#include "words.h"

namespace mha {
namespace {

const char* const kWorks = "These work: .safetensors, .pt, .pth";

std::string suffix(const std::string& path) {
  return std::filesystem::path(path).extension().string();
}

[[noreturn]] void refuse(const std::string& path, const std::string& rule, const std::string& works) {
  const auto name = std::filesystem::path(path).filename().string();
  throw c10::ValueError(
      {__func__, __FILE__, static_cast<uint32_t>(__LINE__)},
      refusal("file", quoted(name), rule, works));
}

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file || std::filesystem::is_directory(path)) {
    refuse(path, "cannot be read", "");
  }
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// The entries that are tensors, of what torch.save wrote: a dict, or a state_dict().
State tensors(const torch::IValue& loaded, const std::string& path) {
  if (!loaded.isGenericDict()) {
    refuse(path, "holds no tensors by name", "Save the tensors alone: torch.save(model.state_dict(), path)");
  }
  State state;
  for (const auto& item : loaded.toGenericDict()) {
    if (item.key().isString() && item.value().isTensor()) {
      state.emplace(item.key().toStringRef(), item.value().toTensor().detach().cpu());
    }
  }
  return state;
}

/// LibTorch has two readers: torch::load takes archives of TorchScript alone, pickle_load what
/// torch.save writes. The second builds tensors, numbers, texts, lists and dicts, and calls nothing.
State from_pickle(const std::string& bytes, const std::string& path) {
  torch::IValue loaded;
  try {
    loaded = torch::jit::pickle_load({bytes.begin(), bytes.end()});
  } catch (const std::exception& error) {
    const std::string what = error.what();
    refuse(
        path,
        "is no PyTorch file that LibTorch reads (" + what.substr(0, what.find('\n')) + ")",
        "Save the tensors alone: torch.save(model.state_dict(), path)");
  }
  return tensors(loaded, path);
}

std::string to_pickle(const State& state) {
  c10::Dict<std::string, torch::Tensor> named;
  for (const auto& [name, tensor] : state) {
    named.insert(name, tensor.detach().cpu().contiguous());
  }
  const auto bytes = torch::jit::pickle_save(named);
  return {bytes.begin(), bytes.end()};
}

}  // namespace

State load_state(const std::string& path) {
  const auto kind = suffix(path);
  State state;
  if (kind == ".safetensors") {
    try {
      state = from_safetensors(read(path));
    } catch (const json::Error& error) {
      refuse(
          path,
          std::string("is safetensors that is broken or incomplete: ") + error.what(),
          "Expected: every byte from the header to the last tensor");
    }
  } else if (kind == ".pt" || kind == ".pth") {
    state = from_pickle(read(path), path);
  } else {
    refuse(path, "must end in one of .safetensors, .pt, .pth", kWorks);
  }
  if (state.empty()) {
    refuse(path, "holds no tensors", "Expected: tensors by name");
  }
  return state;
}

void save_state(const std::string& path, const State& state) {
  const auto kind = suffix(path);
  if (kind != ".safetensors" && kind != ".pt" && kind != ".pth") {
    refuse(path, "must end in one of .safetensors, .pt, .pth", kWorks);
  }
  const auto bytes = kind == ".safetensors" ? to_safetensors(state) : to_pickle(state);
  // Under its name only when complete.
  const std::string part = path + ".part";
  std::ofstream file(part, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) {
    refuse(path, "cannot be written", "");
  }
  std::filesystem::rename(part, path);
}

}  // namespace mha
