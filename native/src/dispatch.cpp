#include "dispatch.h"

namespace ffn {

const Kernels* choose(Precision precision, const InstructionSets& sets) {
#if defined(__x86_64__)
  switch (precision) {
    case Precision::kFloat32: return sets.avx512 ? &kFloat32Avx512 : sets.avx2 ? &kFloat32Avx2 : nullptr;
    case Precision::kBfloat16: return sets.bf16 ? &kBfloat16Avx512 : nullptr;
    case Precision::kInt8: return sets.vnni ? &kInt8Avx512 : nullptr;
  }
#else
  (void)precision, (void)sets;
#endif
  return nullptr;
}

}  // namespace ffn
