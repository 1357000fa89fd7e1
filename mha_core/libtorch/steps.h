// The vocabulary of the steps, as mha_core/steps.py has it; tests hold the two together.
#pragma once

#include <string>
#include <vector>

namespace mha {

/// One step as it is described, before anything ran.
struct StepSpec {
  std::string id;
  /// "0" to "9", with a letter for a sub-step.
  std::string number;
  std::string operation;
  /// What it takes: for each operand the ids of the steps it may come from, the later first.
  std::vector<std::vector<std::string>> reads;
  /// Symbolic shapes: of each operand, joined by ×, and of the result.
  std::string inputs;
  std::string output;
  /// Whether it stands in the short table, where Q stands for Q, K and V.
  bool in_short_table;
};

/// Every step, in the order of the pipeline.
const std::vector<StepSpec>& steps();

}  // namespace mha
