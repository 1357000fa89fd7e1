// mha_libtorch: the module of multi_head_attention.h from the command line.
//
// Prints to standard output; errors go to standard error, in one line. Exit status 0 is success,
// 1 a check that found differences, 2 a request that cannot be met.
#include <iostream>
#include <map>

#include "arguments.h"
#include "commands.h"

namespace {

const char* const kUsage =
    R"(mha_libtorch table [sizes] [--causal] [--detail]          the shape table of every step
mha_libtorch run WEIGHTS INPUT OUTPUT --heads N [--causal] [--scale S] [--fill F]
                                                          every step, from files
mha_libtorch weights OUTPUT [sizes]                       seeded weights, as a file
mha_libtorch check CASE EXPECTED [--tolerance T]          differences at every step
mha_libtorch serve                                        cases from standard input
mha_libtorch time [sizes] [--causal]                      milliseconds of a forward

sizes: --batch N --time N --d-model N --heads N --seed N --dropout P --dtype NAME --no-bias
       --threads N
Files end in .safetensors or .pt. INPUT holds x (batch, time, d_model), and mask if there is one.)";

}  // namespace

int main(int count, char** values) {
  const std::map<std::string, int (*)(const mha::Given&)> commands = {
      {"table", mha::table}, {"run", mha::run}, {"weights", mha::weights},
      {"check", mha::check}, {"serve", mha::serve}, {"time", mha::time}};
  const mha::Given given(values + 1, values + count);
  if (given.empty() || given[0] == "--help" || given[0] == "-h") {
    std::cout << kUsage << "\n";
    return given.empty() ? 2 : 0;
  }
  const auto command = commands.find(given[0]);
  try {
    if (command == commands.end()) {
      throw mha::Refused("no such command: " + given[0]);
    }
    const int status = command->second({given.begin() + 1, given.end()});
    std::cout.flush();
    return status;
  } catch (const std::exception& error) {
    std::string line = mha::sentence(error);
    for (char& c : line) {
      c = c == '\n' ? ' ' : c;
    }
    std::cerr << "error: " << line << "\n";
    return 2;
  }
}
