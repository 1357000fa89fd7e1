// What the program does: one function a command, each given the arguments behind its name.
#pragma once

#include <string>
#include <vector>

namespace mha {

using Given = std::vector<std::string>;

/// Prints the shape table, byte for byte as `python -m mha_core table`.
int table(const Given& given);

/// Runs weights on an input and writes every step.
int run(const Given& given);

/// Writes the seeded weights of a configuration.
int weights(const Given& given);

/// Runs a case (cases.h) and prints the largest difference of every step from what is expected.
int check(const Given& given);

/// Runs the cases named on standard input, a line each: the case's file, a tab, the result's.
/// Answers a line each: "ok", or "error" and the sentence.
int serve(const Given& given);

/// Runs a forward for every line on standard input and answers with its milliseconds.
int time(const Given& given);

/// The sentence of an exception, without LibTorch's backtrace.
std::string sentence(const std::exception& error);

}  // namespace mha
