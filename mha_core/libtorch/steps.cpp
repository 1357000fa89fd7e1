#include "steps.h"

namespace mha {
namespace {

const char* const kFlat = "(batch, time, d_model)";
const char* const kByTime = "(batch, time, h, d_k)";
const char* const kByHead = "(batch, h, time, d_k)";
const char* const kMap = "(batch, h, time, time)";

std::vector<StepSpec> described() {
  std::vector<StepSpec> all;
  all.push_back({"input", "0", "x", {}, "", kFlat, false});
  const std::string letters = "qkv";
  for (const char n : letters) {
    all.push_back(
        {std::string("project_") + n, "1", std::string("W_") + n + "(x)", {{"input"}}, kFlat, kFlat,
         n == 'q'});
  }
  for (const char n : letters) {
    all.push_back(
        {std::string("split_") + n, "2", "view(batch, time, h, d_k)",
         {{std::string("project_") + n}}, kFlat, kByTime, n == 'q'});
  }
  for (const char n : letters) {
    all.push_back(
        {std::string("transpose_") + n, "3", "transpose(1, 2)", {{std::string("split_") + n}},
         kByTime, kByHead, n == 'q'});
  }
  const std::vector<StepSpec> rest = {
      {"scores", "4", "Q @ Kᵀ", {{"transpose_q"}, {"transpose_k"}},
       std::string(kByHead) + " × (batch, h, d_k, time)", kMap, true},
      {"scale", "4a", "/ √d_k", {{"scores"}}, kMap, kMap, false},
      {"mask", "4b", "mask", {{"scale"}}, kMap, kMap, false},
      {"softmax", "5", "softmax(-1)", {{"mask", "scale"}}, kMap, kMap, true},
      {"dropout", "5a", "dropout", {{"softmax"}}, kMap, kMap, false},
      {"weighted_values", "6", "weights @ V", {{"dropout", "softmax"}, {"transpose_v"}},
       std::string(kMap) + " × " + kByHead, kByHead, true},
      {"transpose_back", "7", "transpose(1, 2)", {{"weighted_values"}}, kByHead, kByTime, true},
      {"merge", "8", "contiguous().view(batch, time, d_model)", {{"transpose_back"}}, kByTime,
       kFlat, true},
      {"output", "9", "W_o(out)", {{"merge"}}, kFlat, kFlat, true},
  };
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

}  // namespace

const std::vector<StepSpec>& steps() {
  static const std::vector<StepSpec> all = described();
  return all;
}

}  // namespace mha
