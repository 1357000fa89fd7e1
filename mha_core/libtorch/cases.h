// A case is one run described by tensors in a file, so that two programs can run the same.
//
//   x                     (batch, time, d_model)
//   W_q.weight, ...       the weights under the module's own names; biases where they are
//   heads                 int64 scalar
//   mask                  optional, boolean (true = may attend) or floating point
//   causal                optional bool scalar
//   scale, fill, dropout  optional float64 scalars
//   seed                  optional int64 scalar: of the dropout, as mha_core/inputs.py derives it
//   gradient              optional, (batch, time, d_model): d loss / d output
//
// The result holds every step by its id and, where a gradient was given, d loss / d x as
// "gradient/x" and those of the weights as "gradient/W_q.weight", ...
//
// Two further kinds, told by what they hold: q, k and v without x run `attend` (result: output and
// weights); with "torch" (a bool scalar) torch::nn::MultiheadAttention runs on the same weights,
// time first, with mask as its attn_mask and key_padding_mask (result: output, weights).
#pragma once

#include "state.h"

namespace mha {

State run_case(const State& given);

}  // namespace mha
