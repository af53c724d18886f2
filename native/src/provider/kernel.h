// One claimed node of a session.
#pragma once

#include "dispatch.h"
#include "provider/ort.h"

namespace ffn {

// Packs the weights of the node. Afterwards the runtime frees the originals, where it may prepack.
OrtKernelImpl* make_kernel(const OrtKernelInfo* info, const Kernels& kernels);

}  // namespace ffn
