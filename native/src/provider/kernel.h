// One claimed node of a session.
#pragma once

#include "dispatch.h"
#include "provider/contract.h"
#include "provider/ort.h"

namespace ffn {

// The kernels of a session's precision.
struct Chosen {
  const Kernels* products = nullptr;
  const AttentionKernels* attention = nullptr;
};

// Packs the weights of the node. Afterwards the runtime frees the originals, where it may prepack.
OrtKernelImpl* make_kernel(const OrtKernelInfo* info, Kind kind, const Chosen& chosen);

}  // namespace ffn
