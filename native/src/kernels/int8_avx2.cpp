// int8 by AVX2. CMakeLists.txt sets the flags of this file alone.
// clang-format off: each of these is written in the names of those before it.
#include "kernels/simd_avx2.h"
#include "kernels/integers_avx2.h"
#include "kernels/dot_int8.h"
#include "kernels/tile_registers.h"
#include "kernels/product.h"
// clang-format on

namespace ffn {

const Kernels kInt8Avx2 = kernels("int8 by AVX2", Dot::kBlock, /*pairs_in_16_bits=*/true);

}  // namespace ffn
