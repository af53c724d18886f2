// The precision that a session asks for, and the kernels of it on this processor.
#pragma once

#include "provider/kernel.h"

namespace ffn {

struct NamedPrecision {
  const char* name;
  Precision precision;
};
constexpr NamedPrecision kPrecisions[] = {
    {"f32", Precision::kFloat32}, {"bf16", Precision::kBfloat16}, {"int8", Precision::kInt8}};

// The provider's option `precision`, which is the session's entry `ep.ffnexecutionprovider.precision`; f32 unless
// asked.
Precision precision_of(const OrtSessionOptions* options);

// Null where none fits.
Chosen kernels_of(Precision precision);

}  // namespace ffn
