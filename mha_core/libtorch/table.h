// The shape table of a forward that ran, as `python -m mha_core table` prints it.
#pragma once

#include <torch/types.h>

#include <map>
#include <string>

namespace mha {

/// The steps' tensors by id.
using Recorded = std::map<std::string, torch::Tensor>;

/// The table as text, without a trailing newline. Short: the nine steps. With `detail` every step
/// that ran, with strides, storage and bytes. All are read from the tensors.
std::string shape_table(const Recorded& recorded, bool detail);

}  // namespace mha
