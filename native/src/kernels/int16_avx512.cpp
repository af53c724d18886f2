// Attention in 16-bit integers by AVX-512 VNNI. CMakeLists.txt sets the flags of this file alone.
// clang-format off: each of these is written in the names of those before it.
#include "kernels/simd_avx512.h"
#include "kernels/integers_avx512_vnni.h"
#include "kernels/dot_int16.h"
#include "kernels/tile_registers.h"
#include "kernels/attention.h"
// clang-format on

namespace ffn {

const AttentionKernels kAttentionInt16Avx512 = attention_kernels("attention in 16-bit integers by AVX-512 VNNI");

}  // namespace ffn
