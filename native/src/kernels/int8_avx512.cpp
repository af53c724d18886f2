// int8 by AVX-512 VNNI. CMakeLists.txt sets the flags of this file alone.
// clang-format off: each of these is written in the names of those before it.
#include "kernels/simd_avx512.h"
#include "kernels/integers_avx512_vnni.h"
#include "kernels/dot_int8.h"
#include "kernels/tile_registers.h"
#include "kernels/product.h"
// clang-format on

namespace ffn {

const Kernels kInt8Avx512 = kernels("int8 by AVX-512 VNNI");

}  // namespace ffn
