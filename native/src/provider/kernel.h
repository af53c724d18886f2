// One claimed node of a session.
#pragma once

#include "dispatch.h"
#include "provider/contract.h"
#include "provider/ort.h"

namespace ffn {

// The kernels of a precision; null where none fits this processor.
struct Chosen {
  const Kernels* products = nullptr;
  const AttentionKernels* attention = nullptr;
};

Chosen kernels_of(Precision precision);

// Makes the kernel in the session's precision, or in that of the node where it is more precise. Packs the weights of
// the node. Afterwards the runtime frees the originals, where it may prepack.
OrtKernelImpl* make_kernel(const OrtKernelInfo* info, Kind kind, const Chosen& chosen);

}  // namespace ffn
