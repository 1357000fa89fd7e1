#include "commands.h"

#include <ATen/Parallel.h>

#include <chrono>
#include <cmath>
#include <iostream>

#include "arguments.h"
#include "cases.h"
#include "checks.h"
#include "seeded.h"
#include "state.h"
#include "table.h"
#include "words.h"

namespace mha {
namespace {

const std::set<std::string> kSizes = {
    "--batch", "--time", "--d-model", "--heads", "--seed", "--dropout", "--dtype", "--threads"};

torch::Dtype dtype_named(const std::string& name) {
  if (name == "float32") return torch::kFloat32;
  if (name == "float64") return torch::kFloat64;
  if (name == "bfloat16") return torch::kBFloat16;
  if (name == "float16") return torch::kFloat16;
  TORCH_CHECK_VALUE(
      false,
      refusal(
          "dtype", quoted(name), "is not a floating-point type offered here",
          "These work: float32, float64, bfloat16, float16"));
}

void set_threads(const Arguments& arguments) {
  if (arguments.has("--threads")) {
    const int64_t threads = arguments.integer("--threads", 1);
    check_size("threads", threads);
    at::set_num_threads(static_cast<int>(threads));
  }
}

/// A configuration with the defaults of mha_core.MHAConfig.
struct Config {
  int64_t batch, time, d_model, heads, seed;
  double dropout;
  bool bias;
  torch::Dtype dtype;

  explicit Config(const Arguments& arguments)
      : batch(arguments.integer("--batch", 2)),
        time(arguments.integer("--time", 6)),
        d_model(arguments.integer("--d-model", 32)),
        heads(arguments.integer("--heads", 4)),
        seed(arguments.integer("--seed", 0)),
        dropout(arguments.number("--dropout", 0.0)),
        bias(!arguments.has("--no-bias")) {
    check_size("batch", batch);
    check_size("time", time);
    check_widths(d_model, heads);
    check_dropout(dropout);
    check_seed(seed);
    dtype = dtype_named(arguments.text("--dtype", "float32"));
    set_threads(arguments);
  }

  MultiHeadAttention module() const {
    return seeded_module(
        MultiHeadAttentionOptions(d_model, heads).bias(bias).dropout(dropout).dtype(dtype), seed);
  }

  torch::Tensor input() const { return random_input(batch, time, d_model, seed, dtype); }
};

/// Refuses NaN and infinity in what a file brings, saying where; a mask may hold -inf.
void check_finite(const std::string& name, const torch::Tensor& tensor) {
  if (!tensor.is_floating_point()) {
    return;
  }
  const auto wrong =
      name == "mask" ? tensor.isnan().logical_or(tensor.isposinf()) : ~tensor.isfinite();
  if (!wrong.any().item<bool>()) {
    return;
  }
  const auto at = wrong.nonzero()[0];
  std::vector<int64_t> first(at.data_ptr<int64_t>(), at.data_ptr<int64_t>() + at.numel());
  auto value = tensor;
  for (const int64_t index : first) {
    value = value[index];
  }
  TORCH_CHECK_VALUE(
      false,
      refusal(
          name, float_text(value.item<double>()),
          "must be finite; the first of " + std::to_string(wrong.sum().item<int64_t>()) +
              " that are not is at " + tuple_text(first)));
}

std::string file_name(const std::string& path) {
  return path.substr(path.find_last_of('/') + 1);
}

const char* const kParameters[] = {
    "W_q.weight", "W_q.bias", "W_k.weight", "W_k.bias",
    "W_v.weight", "W_v.bias", "W_o.weight", "W_o.bias"};

}  // namespace

std::string sentence(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  return torch_error ? torch_error->what_without_backtrace() : error.what();
}

int table(const Given& given) {
  const Arguments arguments(given, kSizes, {"--causal", "--no-bias", "--detail"}, {});
  const Config config(arguments);
  torch::NoGradGuard no_grad;
  Recorded recorded;
  config.module()->forward(
      config.input(),
      MultiHeadAttentionForwardOptions()
          .causal(arguments.has("--causal"))
          .generator(generator(config.seed, "dropout"))
          .observe([&recorded](const std::string& step, const torch::Tensor& tensor) {
            recorded[step] = tensor;
            return tensor;
          }));
  std::cout << shape_table(recorded, arguments.has("--detail")) << "\n";
  return 0;
}

int run(const Given& given) {
  const Arguments arguments(
      given, {"--heads", "--scale", "--fill", "--threads"}, {"--causal"},
      {"weights", "input", "output"});
  set_threads(arguments);
  const auto file = load_state(arguments.text("weights"));
  auto input = load_state(arguments.text("input"));
  State problem;
  for (const auto* name : kParameters) {
    if (file.count(name) != 0) {
      problem[name] = file.at(name);
    }
  }
  TORCH_CHECK_VALUE(
      problem.count("W_q.weight") != 0 && problem["W_q.weight"].dim() == 2,
      refusal(
          "file", quoted(file_name(arguments.text("weights"))), "holds no W_q.weight",
          "Expected: W_q, W_k, W_v and W_o, as the app saves them under this library's names"));
  // The app's own exports call the input "input".
  for (const auto* name : {"input", "x"}) {
    if (input.count(name) != 0) {
      problem["x"] = input.at(name);
    }
  }
  if (input.count("mask") != 0) {
    problem["mask"] = input.at("mask");
  }
  for (const auto& [name, tensor] : problem) {
    check_finite(name, tensor);
  }
  if (!arguments.has("--heads")) {
    throw Refused("the following arguments are required: --heads");
  }
  problem["heads"] = torch::tensor(arguments.integer("--heads", 1));
  problem["causal"] = torch::tensor(arguments.has("--causal"));
  for (const std::string name : {"scale", "fill"}) {
    if (arguments.has("--" + name)) {
      problem[name] = torch::tensor(arguments.number("--" + name, 0.0), torch::kFloat64);
    }
  }
  save_state(arguments.text("output"), run_case(problem));
  return 0;
}

int weights(const Given& given) {
  const Arguments arguments(given, kSizes, {"--no-bias"}, {"output"});
  State state;
  for (const auto& item : Config(arguments).module()->named_parameters()) {
    state[item.key()] = item.value();
  }
  save_state(arguments.text("output"), state);
  return 0;
}

int check(const Given& given) {
  const Arguments arguments(given, {"--tolerance", "--threads"}, {}, {"case", "expected"});
  set_threads(arguments);
  const double tolerance = arguments.number("--tolerance", 0.0);
  const auto result = run_case(load_state(arguments.text("case")));
  bool all_within = true;
  for (const auto& [name, expected] : load_state(arguments.text("expected"))) {
    const auto found = result.find(name);
    std::string difference = "did not run";
    bool within = false;
    if (found != result.end() && found->second.sizes() != expected.sizes()) {
      difference = "has the shape " + tuple_text(found->second.sizes().vec());
    } else if (found != result.end()) {
      const auto one = found->second.to(torch::kFloat64);
      const auto other = expected.to(torch::kFloat64);
      // Equal infinities differ by nothing, though their difference is NaN.
      const auto gap = (one - other).abs().masked_fill(one == other, 0.0);
      const double largest = gap.numel() == 0 ? 0.0 : gap.max().item<double>();
      // A share of the largest value that is finite: masked scores may be -inf.
      const auto sizes = other.abs().masked_fill(~other.isfinite(), 0.0);
      within = largest <= tolerance * (sizes.numel() == 0 ? 0.0 : sizes.max().item<double>());
      difference = float_text(largest);
    }
    all_within = all_within && within;
    std::cout << name << "  " << difference << (within ? "" : "  DIFFERS") << "\n";
  }
  return all_within ? 0 : 1;
}

int serve(const Given& given) {
  const Arguments arguments(given, {"--threads"}, {}, {});
  set_threads(arguments);
  std::string line;
  while (std::getline(std::cin, line)) {
    const size_t tab = line.find('\t');
    try {
      if (tab == std::string::npos) {
        throw Refused("expected the case's file, a tab, and the result's");
      }
      save_state(line.substr(tab + 1), run_case(load_state(line.substr(0, tab))));
      std::cout << "ok" << std::endl;
    } catch (const std::exception& error) {
      std::cout << "error " << sentence(error) << std::endl;
    }
  }
  return 0;
}

int time(const Given& given) {
  const Arguments arguments(given, kSizes, {"--causal", "--no-bias"}, {});
  const Config config(arguments);
  auto module = config.module();
  const auto x = config.input();
  const auto options = MultiHeadAttentionForwardOptions().causal(arguments.has("--causal"));
  torch::NoGradGuard no_grad;
  // Every line on standard input asks for one, so that who measures can take turns.
  std::string line;
  while (std::getline(std::cin, line)) {
    const auto start = std::chrono::steady_clock::now();
    module->forward(x, options);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    std::cout << took.count() << std::endl;
  }
  return 0;
}

}  // namespace mha
