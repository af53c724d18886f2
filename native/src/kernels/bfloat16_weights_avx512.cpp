// Weights in bfloat16 by AVX-512. CMakeLists.txt sets the flags of this file alone.
// clang-format off: each of these is written in the names of those before it.
#include "kernels/simd_avx512.h"
#include "kernels/dot_bfloat16_weights.h"
#include "kernels/tile_registers.h"
#include "kernels/product.h"
// clang-format on

namespace ffn {

const Kernels kBfloat16WeightsAvx512 = kernels("bfloat16 weights by AVX-512");

}  // namespace ffn
