// Attention on the threads of a host.
#pragma once

#include "kernels.h"
#include "parallel.h"

namespace ffn {

void attend(const AttentionKernels& kernels, const Attention& attention, const Parallel& parallel);

}  // namespace ffn
