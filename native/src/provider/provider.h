// The execution provider of one session: which nodes it claims, and the kernels that it registers for them.
#pragma once

#include "dispatch.h"
#include "provider/ort.h"

namespace ffn {

// `kernels` is null where this processor has none for the precision: then nothing is claimed.
OrtEp* make_provider(const Kernels* kernels);
void release_provider(OrtEp* provider);

}  // namespace ffn
