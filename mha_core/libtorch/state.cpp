#include "state.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include "words.h"

namespace mha {
namespace {

const char* const kWorks = "These work: .safetensors, .pt, .pth";

std::string suffix(const std::string& path) {
  return std::filesystem::path(path).extension().string();
}

[[noreturn]] void refuse(
    const std::string& path, const std::string& rule, const std::string& works) {
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

}  // namespace

State load_state(const std::string& path) {
  const auto kind = suffix(path);
  State state;
  if (kind == ".safetensors") {
    try {
      state = from_safetensors(read(path));
    } catch (const FormatError& error) {
      refuse(
          path,
          std::string("is safetensors that is broken or incomplete: ") + error.what(),
          "Expected: every byte from the header to the last tensor");
    }
  } else if (kind == ".pt" || kind == ".pth") {
    try {
      state = from_pt(read(path));
    } catch (const FormatError& error) {
      refuse(path, error.what(), "Save a plain dict: torch.save(dict(model.state_dict()), path)");
    }
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
  const auto bytes = kind == ".safetensors" ? to_safetensors(state) : to_pt(state);
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
