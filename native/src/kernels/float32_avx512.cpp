// float32 by AVX-512. CMakeLists.txt sets the flags of this file alone.
// clang-format off: each of these is written in the names of those before it.
#include "kernels/simd_avx512.h"
#include "kernels/dot_float32.h"
#include "kernels/tile_registers.h"
#include "kernels/product.h"
#include "kernels/attention.h"
// clang-format on

namespace ffn {

const Kernels kFloat32Avx512 = kernels("float32 by AVX-512");
const AttentionKernels kAttentionFloat32Avx512 = attention_kernels("attention in float32 by AVX-512");

}  // namespace ffn
