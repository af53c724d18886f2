// Products of 8-bit and 16-bit integers by AVX-512 VNNI: VPDPBUSD adds four, VPDPWSSD two.
#pragma once

#include "kernels.h"

namespace {

// Not __m512i: converted to float32 at the end, that makes GCC keep two copies of each sum, and spill them.
typedef int Sum __attribute__((vector_size(64)));

FFN_INLINE Sum plus_products_of_pairs(Sum sum, Float a, Float b) {
  return reinterpret_cast<Sum>(_mm512_dpwssd_epi32(reinterpret_cast<Int>(sum), as_integers(a), as_integers(b)));
}

struct Bytes {
  static constexpr long kGroup = 64;  // units that share a scale: 256 elements

  static FFN_INLINE Sum step(Sum sum, Float a, Float b) {
    return reinterpret_cast<Sum>(_mm512_dpbusd_epi32(reinterpret_cast<Int>(sum), as_integers(a), as_integers(b)));
  }
};

}  // namespace
