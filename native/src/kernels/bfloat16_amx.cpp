// bfloat16 by AMX, and by AMX and AVX-512 BF16 for attention. CMakeLists.txt sets the flags of this file alone.
// clang-format off: each of these is written in the names of those before it.
#include "kernels/simd_avx512.h"
#include "kernels/dot_bfloat16.h"
#include "kernels/tile_amx.h"
#include "kernels/product.h"
#include "kernels/attention.h"
// clang-format on

namespace ffn {

// Blocks are large, since tiles multiply faster than the far cache gives weights. Blocks of 512 tokens took 0.91 of the
// time of 128 at 768 by 3072, on an Intel Xeon of family 6, model 207.
const Kernels kBfloat16Amx = kernels("bfloat16 by AMX", 16 * kRows1);
const AttentionKernels kAttentionBfloat16Amx = attention_kernels("attention in bfloat16 by AMX");

}  // namespace ffn
