// bfloat16 by AVX-512 BF16. CMakeLists.txt sets the flags of this file alone.
// clang-format off: each of these is written in the names of those before it.
#include "kernels/simd_avx512.h"
#include "kernels/dot_bfloat16.h"
#include "kernels/tile_registers.h"
#include "kernels/product.h"
#include "kernels/attention.h"
// clang-format on

namespace ffn {

const Kernels kBfloat16Avx512 = kernels("bfloat16 by AVX-512 BF16");
const AttentionKernels kAttentionBfloat16Avx512 = attention_kernels("attention in bfloat16 by AVX-512 BF16");

}  // namespace ffn
