// int8 by AMX. CMakeLists.txt sets the flags of this file alone.
// clang-format off: each of these is written in the names of those before it.
#include "kernels/simd_avx512.h"
#include "kernels/dot_int8.h"
#include "kernels/tile_amx.h"
#include "kernels/product.h"
// clang-format on

namespace ffn {

const Kernels kInt8Amx = kernels("int8 by AMX", 2 * kRows1);

}  // namespace ffn
