// The execution provider of one session: which nodes it claims, and the kernels that it registers for them.
#pragma once

#include "provider/kernel.h"

namespace ffn {

// Kernels are null where this processor has none for the precision: then nothing is claimed.
OrtEp* make_provider(const Chosen& chosen);
void release_provider(OrtEp* provider);

}  // namespace ffn
