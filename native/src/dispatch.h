// The kernels for a precision on this processor.
#pragma once

#include "instruction_sets.h"
#include "kernels.h"

namespace ffn {

// Null where no kernel fits: the caller leaves the node to its body, and never computes in another precision.
const Kernels* choose(Precision precision, const InstructionSets& sets);
// For 8-bit integers attention is in bfloat16 where it is fast, otherwise in 16-bit integers.
const AttentionKernels* choose_attention(Precision precision, const InstructionSets& sets);

}  // namespace ffn
