// The precision that a session asks for.
#pragma once

#include "provider/contract.h"
#include "provider/ort.h"

namespace ffn {

// The provider's option `precision`, which is the session's entry `ep.ffnexecutionprovider.precision`; f32 unless
// asked.
Precision precision_of(const OrtSessionOptions* options);

}  // namespace ffn
