// int8 by AMX. CMakeLists.txt sets the flags of this file alone.
// clang-format off: each of these is written in the names of those before it.
#include "kernels/simd_avx512.h"
#include "kernels/integers_avx512_vnni.h"
#include "kernels/dot_int8.h"
#include "kernels/tile_amx.h"
#include "kernels/product.h"
// clang-format on

namespace ffn {

// As in bfloat16_amx.cpp. Blocks of 256 tokens took 0.87 of the time of 64, with groups of 1,024 elements.
const Kernels kInt8Amx = kernels("int8 by AMX", 8 * kRows1);

}  // namespace ffn
