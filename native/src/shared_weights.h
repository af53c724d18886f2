// Packed weights that are equal, kept once in a process.
//
//     session 1    pack  --share-->   weights A   <--+
//     session 2    pack  --share-->   equal to A  ---+   freed; both sessions hold A
//     session 3    pack  --share-->   weights B
//
// Sessions of one model in one process, and nodes of one model that repeat a layer, hold the same weights. A registry
// has a weak reference to each, under a hash. What equals it in every byte is dropped for it, so no caller has to say
// that two weights are the same, and nothing that differs is ever taken. The last holder frees the weights.
//
// Nothing writes to weights after they are packed. Threads may share and drop them at once.
#pragma once

#include <cstddef>
#include <memory>

#include "panels.h"

namespace ffn {

using SharedWeights = std::shared_ptr<const Weights>;

SharedWeights share(Weights&& packed);

// How many are held in this process.
size_t weights_held();

}  // namespace ffn
