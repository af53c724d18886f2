// How the library takes ONNX Runtime's API when one of its entry points is called.
#pragma once

#include "provider/ort.h"

#define FFN_EXPORT extern "C" __attribute__((visibility("default")))

namespace ffn {

// Takes the newest version that the runtime and the headers both know. Returns an error if it is older than `oldest`.
OrtStatus* take_api(const OrtApiBase* base, uint32_t oldest, const char* need);

}  // namespace ffn
