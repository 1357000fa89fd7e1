// Safetensors: 8 bytes of length, a JSON header of that length, then the tensors' bytes.
#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "json.h"
#include "state.h"

namespace mha {
namespace {

static_assert(
    __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "safetensors is little-endian, read as it lies");

// As the format's own reader has it.
constexpr uint64_t kMaxHeader = 100'000'000;

constexpr std::array<std::pair<const char*, torch::Dtype>, 10> kDtypes = {{
    {"F64", torch::kFloat64}, {"F32", torch::kFloat32}, {"F16", torch::kFloat16},
    {"BF16", torch::kBFloat16}, {"I64", torch::kInt64}, {"I32", torch::kInt32},
    {"I16", torch::kInt16}, {"I8", torch::kInt8}, {"U8", torch::kUInt8}, {"BOOL", torch::kBool},
}};

using Kind = json::Value::Kind;

[[noreturn]] void broken(const std::string& what) {
  throw FormatError(what);
}

const json::Value& entry(const json::Value& from, const std::string& name, Kind kind) {
  const auto found = from.dictionary.find(name);
  if (found == from.dictionary.end() || found->second.kind != kind) {
    broken("no proper " + name);
  }
  return found->second;
}

torch::Dtype dtype_named(const std::string& name) {
  for (const auto& [known, dtype] : kDtypes) {
    if (name == known) {
      return dtype;
    }
  }
  broken("the dtype " + name + " is not read here");
}

std::string name_of(torch::Dtype dtype) {
  for (const auto& [name, known] : kDtypes) {
    if (dtype == known) {
      return name;
    }
  }
  TORCH_CHECK_VALUE(false, "safetensors: the dtype ", dtype, " is not written here");
}

/// Where a tensor's bytes lie, checked against its shape and the size of the file.
struct Place {
  std::vector<int64_t> shape;
  torch::Dtype dtype;
  uint64_t begin;
  uint64_t end;
};

Place place(const json::Value& described, uint64_t room) {
  if (described.kind != Kind::dictionary) {
    broken("is not described");
  }
  Place found{{}, dtype_named(entry(described, "dtype", Kind::text).text), 0, 0};
  uint64_t bytes = torch::elementSize(found.dtype);
  bool empty = false;
  for (const auto& size : entry(described, "shape", Kind::list).list) {
    if (size.kind != Kind::number || size.number > std::numeric_limits<int64_t>::max()) {
      broken("has a size that is no number");
    }
    found.shape.push_back(static_cast<int64_t>(size.number));
    empty = empty || size.number == 0;
  }
  for (const int64_t size : found.shape) {
    const auto count = empty ? 0 : static_cast<uint64_t>(size);
    if (count != 0 && bytes > room / count) {
      broken("is larger than the file");
    }
    bytes *= count;
  }
  const auto& offsets = entry(described, "data_offsets", Kind::list).list;
  if (offsets.size() != 2 || offsets[0].kind != Kind::number || offsets[1].kind != Kind::number) {
    broken("has no two offsets");
  }
  found.begin = offsets[0].number;
  found.end = offsets[1].number;
  if (found.begin > found.end || found.end > room || found.end - found.begin != bytes) {
    broken("does not lie within the file as its shape says");
  }
  return found;
}

}  // namespace

State from_safetensors(const std::string& bytes) {
  uint64_t length = 0;
  if (bytes.size() < sizeof length) {
    broken("the file ends within its first 8 bytes");
  }
  std::memcpy(&length, bytes.data(), sizeof length);
  if (length > kMaxHeader || length > bytes.size() - sizeof length) {
    broken("the header is longer than the file");
  }
  json::Value header;
  try {
    header = json::parse(bytes.substr(sizeof length, static_cast<size_t>(length)));
  } catch (const json::Error& error) {
    broken(std::string("the header has ") + error.what());
  }
  if (header.kind != Kind::dictionary) {
    broken("the header is no dictionary");
  }
  const char* data = bytes.data() + sizeof length + length;
  const uint64_t room = bytes.size() - sizeof length - length;
  State state;
  std::map<uint64_t, uint64_t> taken;
  for (const auto& [name, described] : header.dictionary) {
    if (name == "__metadata__") {
      continue;
    }
    try {
      const Place found = place(described, room);
      auto tensor = torch::empty(found.shape, found.dtype);
      if (found.end > found.begin) {
        std::memcpy(tensor.data_ptr(), data + found.begin, found.end - found.begin);
        if (!taken.emplace(found.begin, found.end).second) {
          broken("shares its bytes with another");
        }
      }
      if (found.dtype == torch::kBool) {
        // Any byte but 0 is true; in memory a bool must be 0 or 1.
        tensor = tensor.view(torch::kUInt8).ne(0);
      }
      state.emplace(name, tensor);
    } catch (const FormatError& error) {
      broken("the tensor " + json::written(name) + " " + error.what());
    }
  }
  // The tensors fill the file from end to end, so that nothing hides between them.
  uint64_t reached = 0;
  for (const auto& [begin, end] : taken) {
    if (begin != reached) {
      broken("the tensors overlap, or leave a gap");
    }
    reached = end;
  }
  if (reached != room) {
    broken("bytes are left over after the last tensor");
  }
  return state;
}

std::string to_safetensors(const State& state) {
  std::string header = "{";
  std::string data;
  // The widest first, so that each lies on a multiple of its own width.
  for (const auto& [code, dtype] : kDtypes) {
    for (const auto& [name, tensor] : state) {
      if (name_of(tensor.scalar_type()) != code) {
        continue;
      }
      const auto whole = tensor.detach().cpu().contiguous();
      const size_t begin = data.size();
      data.append(static_cast<const char*>(whole.const_data_ptr()), whole.nbytes());
      header += (header.size() == 1 ? "" : ",") + json::written(name) + ":{\"dtype\":\"" + code +
          "\",\"shape\":[";
      for (int64_t axis = 0; axis < whole.dim(); ++axis) {
        header += (axis == 0 ? "" : ",") + std::to_string(whole.size(axis));
      }
      header += "],\"data_offsets\":[" + std::to_string(begin) + "," +
          std::to_string(data.size()) + "]}";
    }
  }
  header += "}";
  header.append((8 - header.size() % 8) % 8, ' ');
  const uint64_t length = header.size();
  std::string bytes;
  bytes.reserve(sizeof length + header.size() + data.size());
  bytes.append(reinterpret_cast<const char*>(&length), sizeof length);
  return std::move(bytes.append(header).append(data));
}

}  // namespace mha
