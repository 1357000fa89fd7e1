// .pt: the ZIP archive that Python's torch.save writes, a pickle and the tensors' bytes beside it.
#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include <array>
#include <utility>

#include "state.h"

namespace mha {
namespace {

// torch.save writes the name of a typed storage; these are the dtypes that have one.
constexpr std::array<std::pair<torch::Dtype, const char*>, 10> kStorages = {{
    {torch::kFloat64, "DoubleStorage"}, {torch::kFloat32, "FloatStorage"},
    {torch::kFloat16, "HalfStorage"}, {torch::kBFloat16, "BFloat16Storage"},
    {torch::kInt64, "LongStorage"}, {torch::kInt32, "IntStorage"}, {torch::kInt16, "ShortStorage"},
    {torch::kInt8, "CharStorage"}, {torch::kUInt8, "ByteStorage"}, {torch::kBool, "BoolStorage"},
}};

std::string storage_name(torch::Dtype dtype) {
  for (const auto& [known, name] : kStorages) {
    if (dtype == known) {
      return name;
    }
  }
  TORCH_CHECK_VALUE(false, ".pt: the dtype ", dtype, " is not written here");
}

/// The opcodes of pickle's protocol 2 that a dict of tensors needs: Python's Lib/pickletools.py.
class Pickle {
 public:
  Pickle() : bytes_("\x80\x02", 2) {}

  void op(char code) { bytes_ += code; }

  void text(const std::string& value) {
    bytes_ += 'X' + little_endian(value.size(), 4) + value;
  }

  void integer(int64_t value) {
    bytes_ += std::string("\x8a\x08", 2) + little_endian(static_cast<uint64_t>(value), 8);
  }

  void integers(torch::IntArrayRef values) {
    op('(');
    for (const int64_t value : values) {
      integer(value);
    }
    op('t');
  }

  void global(const std::string& module, const std::string& name) {
    bytes_ += 'c' + module + '\n' + name + '\n';
  }

  const std::string& bytes() const { return bytes_; }

 private:
  static std::string little_endian(uint64_t value, int width) {
    std::string out;
    for (int i = 0; i < width; ++i) {
      out += static_cast<char>(value >> 8 * i & 0xff);
    }
    return out;
  }

  std::string bytes_;
};

/// torch._utils._rebuild_tensor_v2(storage, offset, shape, strides, requires_grad, hooks)
void pickle_tensor(Pickle& pickle, const torch::Tensor& tensor, const std::string& key) {
  pickle.global("torch._utils", "_rebuild_tensor_v2");
  pickle.op('(');
  pickle.op('(');
  pickle.text("storage");
  pickle.global("torch", storage_name(tensor.scalar_type()));
  pickle.text(key);
  pickle.text("cpu");
  pickle.integer(tensor.numel());
  pickle.op('t');
  pickle.op('Q');  // the storage, by what torch.save calls a persistent id
  pickle.integer(0);
  pickle.integers(tensor.sizes());
  pickle.integers(tensor.strides());
  pickle.op('\x89');  // False
  pickle.global("collections", "OrderedDict");
  pickle.op(')');
  pickle.op('R');
  pickle.op('t');
  pickle.op('R');
}

}  // namespace

std::string to_pt(const State& state) {
  // LibTorch's own pickle_save marks the dict's type with a function of TorchScript, which
  // torch.load(weights_only=True) refuses to call; so the pickle is written here.
  std::string bytes;
  caffe2::serialize::PyTorchStreamWriter writer([&bytes](const void* data, size_t size) {
    bytes.append(static_cast<const char*>(data), size);
    return size;
  });
  Pickle pickle;
  pickle.op('}');
  pickle.op('(');
  int64_t place = 0;
  for (const auto& [name, tensor] : state) {
    const auto whole = tensor.detach().cpu().contiguous();
    const auto key = std::to_string(place++);
    pickle.text(name);
    pickle_tensor(pickle, whole, key);
    writer.writeRecord("data/" + key, whole.const_data_ptr(), whole.nbytes());
  }
  pickle.op('u');
  pickle.op('.');
  writer.writeRecord("data.pkl", pickle.bytes().data(), pickle.bytes().size());
  writer.writeEndOfFile();
  return bytes;
}

State from_pt(const std::string& bytes) {
  // LibTorch has two readers: torch::load takes archives of TorchScript alone, pickle_load what
  // torch.save writes. The second builds tensors, numbers, texts, lists and dicts, and calls
  // nothing; an OrderedDict, as state_dict() is, it does not build.
  torch::IValue loaded;
  try {
    loaded = torch::jit::pickle_load({bytes.begin(), bytes.end()});
  } catch (const std::exception&) {  // with many words about LibTorch's own assertions
    throw FormatError("is no PyTorch file that LibTorch reads: broken, or more than a plain dict");
  }
  if (!loaded.isGenericDict()) {
    throw FormatError("holds no tensors by name");
  }
  State state;
  for (const auto& item : loaded.toGenericDict()) {
    if (item.key().isString() && item.value().isTensor()) {
      state.emplace(item.key().toStringRef(), item.value().toTensor().detach().cpu());
    }
  }
  return state;
}

}  // namespace mha
