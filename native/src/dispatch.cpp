#include "dispatch.h"

namespace ffn {

const Kernels* choose(Precision precision, const InstructionSets& sets) {
#if defined(__x86_64__)
  switch (precision) {
    case Precision::kFloat32: return sets.avx512 ? &kFloat32Avx512 : sets.avx2 ? &kFloat32Avx2 : nullptr;
    case Precision::kBfloat16:
      return sets.amx         ? &kBfloat16Amx
             : sets.fast_bf16 ? &kBfloat16Avx512
             : sets.avx512    ? &kBfloat16WeightsAvx512
             : sets.avx2      ? &kBfloat16WeightsAvx2
                              : nullptr;
    case Precision::kInt8:
      return sets.amx        ? &kInt8Amx
             : sets.vnni     ? &kInt8Avx512
             : sets.avx_vnni ? &kInt8AvxVnni
             : sets.avx2     ? &kInt8Avx2
                             : nullptr;
  }
#else
  (void)precision, (void)sets;
#endif
  return nullptr;
}

const AttentionKernels* choose_attention(Precision precision, const InstructionSets& sets) {
#if defined(__x86_64__)
  if (!choose(precision, sets)) return nullptr;
  if (precision != Precision::kFloat32 && (sets.amx || sets.fast_bf16))
    return sets.amx ? &kAttentionBfloat16Amx : &kAttentionBfloat16Avx512;
  if (precision == Precision::kInt8)
    return sets.vnni ? &kAttentionInt16Avx512 : sets.avx_vnni ? &kAttentionInt16AvxVnni : &kAttentionInt16Avx2;
  return sets.avx512 ? &kAttentionFloat32Avx512 : &kAttentionFloat32Avx2;
#else
  (void)precision, (void)sets;
  return nullptr;
#endif
}

}  // namespace ffn
