// The instructions of AVX-512, its BF16 and VNNI, and AMX that the kernels use, in plain C++ and behind the names of
// the compiler's own header. A use that a processor answers with a fault ends the program.
//
// Sources: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, and Intel's Intrinsics Guide.
#pragma once

#ifdef __AVX2__  // a file of which AVX-VNNI alone is emulated
#include_next <immintrin.h>

namespace emulated {

// Adds the products of integers within each lane.
template <class A, class B>
inline __m256i plus_products(__m256i sum, __m256i a, __m256i b) {
  constexpr int kEach = 4 / sizeof(A);
  A left[8 * kEach];
  B right[8 * kEach];
  unsigned lanes[8];
  __builtin_memcpy(left, &a, sizeof left);
  __builtin_memcpy(right, &b, sizeof right);
  __builtin_memcpy(lanes, &sum, sizeof lanes);
  for (int i = 0; i < 8 * kEach; i++) lanes[i / kEach] += static_cast<unsigned>(left[i] * right[i]);
  __builtin_memcpy(&sum, lanes, sizeof lanes);
  return sum;
}

}  // namespace emulated

#define _mm256_dpbusd_avx_epi32 emulated::plus_products<unsigned char, signed char>
#define _mm256_dpwssd_avx_epi32 emulated::plus_products<short, short>

#else

#include <emmintrin.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>

typedef float __m512 __attribute__((vector_size(64), may_alias));
typedef long long __m512i __attribute__((vector_size(64), may_alias));
typedef short __m512bh __attribute__((vector_size(64), may_alias));
typedef long long __m256i __attribute__((vector_size(32), may_alias));
typedef short __m256bh __attribute__((vector_size(32), may_alias));
typedef uint16_t __mmask16;
typedef uint32_t __mmask32;

namespace emulated {

typedef int Ints __attribute__((vector_size(64), may_alias));
typedef unsigned Unsigned __attribute__((vector_size(64), may_alias));

inline Ints ints(__m512i x) { return (Ints)x; }
inline Unsigned bits(__m512i x) { return (Unsigned)x; }

template <class T, class V>
T part(const V& vector, int i) {
  T value;
  std::memcpy(&value, reinterpret_cast<const char*>(&vector) + static_cast<size_t>(i) * sizeof value, sizeof value);
  return value;
}
template <class V, class T>
void set(V& vector, int i, T value) {
  std::memcpy(reinterpret_cast<char*>(&vector) + static_cast<size_t>(i) * sizeof value, &value, sizeof value);
}

inline float of_bits(uint32_t x) {
  float value;
  std::memcpy(&value, &x, sizeof value);
  return value;
}
inline uint32_t bits_of(float x) {
  uint32_t value;
  std::memcpy(&value, &x, sizeof value);
  return value;
}
// Both of BF16's instructions take numbers below the normal ones for zero.
inline float flushed(float x) { return (bits_of(x) & 0x7f800000) == 0 ? of_bits(bits_of(x) & 0x80000000) : x; }
inline float of_bfloat16(uint16_t x) { return flushed(of_bits(static_cast<uint32_t>(x) << 16)); }
inline uint16_t to_bfloat16(float x) {  // VCVTNEPS2BF16
  const uint32_t b = bits_of(flushed(x));
  if (x != x) return static_cast<uint16_t>(b >> 16 | 0x40);
  return static_cast<uint16_t>((b + 0x7fff + (b >> 16 & 1)) >> 16);
}
inline float plus_product(float sum, uint16_t a, uint16_t b) {
  return flushed(std::fma(of_bfloat16(a), of_bfloat16(b), flushed(sum)));
}
inline int rounded(float x) {  // out of range, and of NaN: the smallest integer
  return x >= -2147483648.0f && x < 2147483648.0f ? static_cast<int>(std::nearbyint(x)) : INT32_MIN;
}

[[noreturn]] inline void fault(const char* why) {
  std::fprintf(stderr, "FAILED: emulated instruction: %s\n", why);
  std::abort();
}

}  // namespace emulated

// ---- AVX-512 F, BW, DQ and VL --------------------------------------------------------------------------------------

#define _MM_FROUND_TO_NEAREST_INT 0
#define _MM_FROUND_TO_NEG_INF 1
#define _MM_FROUND_NO_EXC 8
#define _CMP_GT_OQ 30

inline __m512 _mm512_set1_ps(float x) { return x - (__m512){}; }
inline __m512 _mm512_setzero_ps() { return (__m512){}; }
inline __m512i _mm512_set1_epi32(int x) { return (__m512i)(x - (emulated::Ints){}); }
inline __m512i _mm512_setzero_si512() { return (__m512i){}; }

inline __m512 _mm512_loadu_ps(const void* p) {
  __m512 x;
  std::memcpy(&x, p, sizeof x);
  return x;
}
inline __m512i _mm512_loadu_si512(const void* p) { return (__m512i)_mm512_loadu_ps(p); }
inline void _mm512_storeu_ps(void* p, __m512 x) { std::memcpy(p, &x, sizeof x); }
inline void _mm512_storeu_si512(void* p, __m512i x) { std::memcpy(p, &x, sizeof x); }
inline __m512 _mm512_maskz_loadu_ps(__mmask16 mask, const float* p) {
  __m512 x{};
  for (int i = 0; i < 16; i++)
    if (mask >> i & 1) x[i] = p[i];
  return x;
}
inline void _mm512_mask_storeu_ps(float* p, __mmask16 mask, __m512 x) {
  for (int i = 0; i < 16; i++)
    if (mask >> i & 1) p[i] = x[i];
}
inline void _mm256_storeu_si256(__m256i* p, __m256i x) { std::memcpy(p, &x, sizeof x); }
inline void _mm256_mask_storeu_epi16(void* p, __mmask16 mask, __m256i x) {
  for (int i = 0; i < 16; i++)
    if (mask >> i & 1) std::memcpy(static_cast<char*>(p) + 2 * i, reinterpret_cast<const char*>(&x) + 2 * i, 2);
}

inline __m512 _mm512_add_ps(__m512 a, __m512 b) { return a + b; }
inline __m512 _mm512_sub_ps(__m512 a, __m512 b) { return a - b; }
inline __m512 _mm512_mul_ps(__m512 a, __m512 b) { return a * b; }
inline __m512 _mm512_div_ps(__m512 a, __m512 b) { return a / b; }
inline __m512 _mm512_fmadd_ps(__m512 a, __m512 b, __m512 c) {
  for (int i = 0; i < 16; i++) c[i] = std::fma(a[i], b[i], c[i]);
  return c;
}
inline __m512 _mm512_fnmadd_ps(__m512 a, __m512 b, __m512 c) { return _mm512_fmadd_ps(-a, b, c); }
// The second operand where one is NaN.
inline __m512 _mm512_max_ps(__m512 a, __m512 b) { return a > b ? a : b; }
inline __m512 _mm512_min_ps(__m512 a, __m512 b) { return a < b ? a : b; }
inline __m512 _mm512_abs_ps(__m512 a) { return (__m512)((emulated::Ints)a & 0x7fffffff); }
inline __m512 _mm512_roundscale_ps(__m512 a, int) {
  for (int i = 0; i < 16; i++) a[i] = std::nearbyint(a[i]);
  return a;
}
inline __m512 _mm512_reduce_ps(__m512 a, int) {  // downwards
  for (int i = 0; i < 16; i++) a[i] = std::isinf(a[i]) ? 0 : a[i] - std::floor(a[i]);
  return a;
}
inline __m512 _mm512_maskz_scalef_ps(__mmask16 mask, __m512 a, __m512 b) {  // of a second operand that an int holds
  for (int i = 0; i < 16; i++) {
    const bool is_given = mask >> i & 1;
    a[i] = !is_given ? 0 : std::isnan(b[i]) ? b[i] : std::ldexp(a[i], static_cast<int>(std::floor(b[i])));
  }
  return a;
}
inline __mmask16 _mm512_cmp_ps_mask(__m512 a, __m512 b, int) {
  __mmask16 mask = 0;
  for (int i = 0; i < 16; i++) mask = static_cast<__mmask16>(mask | (a[i] > b[i]) << i);
  return mask;
}
inline __m512 _mm512_mask_blend_ps(__mmask16 mask, __m512 no, __m512 yes) {
  for (int i = 0; i < 16; i++)
    if (mask >> i & 1) no[i] = yes[i];
  return no;
}
inline float _mm512_reduce_add_ps(__m512 a) {  // halves on halves, as compilers write it
  for (int half = 8; half; half /= 2)
    for (int i = 0; i < half; i++) a[i] += a[i + half];
  return a[0];
}
inline float _mm512_reduce_max_ps(__m512 a) {
  for (int half = 8; half; half /= 2)
    for (int i = 0; i < half; i++) a[i] = a[i] > a[i + half] ? a[i] : a[i + half];
  return a[0];
}
inline float _mm512_reduce_min_ps(__m512 a) { return -_mm512_reduce_max_ps(-a); }

inline __m512 _mm512_castsi512_ps(__m512i a) { return (__m512)a; }
inline __m512i _mm512_castps_si512(__m512 a) { return (__m512i)a; }
inline __m128i _mm512_castsi512_si128(__m512i a) { return __m128i{a[0], a[1]}; }
inline __m512i _mm512_add_epi32(__m512i a, __m512i b) { return (__m512i)(emulated::bits(a) + emulated::bits(b)); }
inline __m512i _mm512_sub_epi32(__m512i a, __m512i b) { return (__m512i)(emulated::bits(a) - emulated::bits(b)); }
inline __m512i _mm512_mullo_epi32(__m512i a, __m512i b) { return (__m512i)(emulated::bits(a) * emulated::bits(b)); }
inline __m512i _mm512_or_si512(__m512i a, __m512i b) { return a | b; }
inline __m512i _mm512_and_si512(__m512i a, __m512i b) { return (__m512i)(emulated::bits(a) & emulated::bits(b)); }
inline __m512i _mm512_slli_epi32(__m512i a, unsigned count) { return (__m512i)(emulated::bits(a) << count); }
inline __m512i _mm512_srli_epi32(__m512i a, unsigned count) { return (__m512i)(emulated::bits(a) >> count); }
inline __m512i _mm512_max_epi32(__m512i a, __m512i b) {
  return (__m512i)(emulated::ints(a) > emulated::ints(b) ? emulated::ints(a) : emulated::ints(b));
}
inline int _mm512_reduce_max_epi32(__m512i a) {
  int most = emulated::ints(a)[0];
  for (int i = 1; i < 16; i++) most = emulated::ints(a)[i] > most ? emulated::ints(a)[i] : most;
  return most;
}
inline __m512i _mm512_cvtps_epi32(__m512 a) {
  emulated::Ints r{};
  for (int i = 0; i < 16; i++) r[i] = emulated::rounded(a[i]);
  return (__m512i)r;
}
inline __m512 _mm512_cvtepi32_ps(__m512i a) { return __builtin_convertvector(emulated::ints(a), __m512); }
inline __m512i _mm512_cvtepu16_epi32(__m256i a) {
  emulated::Ints r{};
  for (int i = 0; i < 16; i++) r[i] = emulated::part<uint16_t>(a, i);
  return (__m512i)r;
}
inline __m256i _mm512_cvtepi32_epi16(__m512i a) {
  __m256i r{};
  for (int i = 0; i < 16; i++) emulated::set(r, i, static_cast<uint16_t>(emulated::bits(a)[i]));
  return r;
}
inline __m128i _mm512_cvtusepi32_epi8(__m512i a) {
  __m128i r{};
  for (int i = 0; i < 16; i++) {
    const unsigned x = emulated::bits(a)[i];
    emulated::set(r, i, static_cast<uint8_t>(x < 255 ? x : 255));
  }
  return r;
}

// Within each quarter of a register.
template <int Elements>
__m512i emulated_unpack(__m512i a, __m512i b, int from) {
  using T = std::conditional_t<Elements == 4, int32_t, int64_t>;
  __m512i r{};
  for (int i = 0; i < 4 * Elements; i++) {
    const int quarter = i / Elements * Elements, place = quarter + from + i % Elements / 2;
    emulated::set(r, i, emulated::part<T>(i % 2 ? b : a, place));
  }
  return r;
}
inline __m512i _mm512_unpacklo_epi32(__m512i a, __m512i b) { return emulated_unpack<4>(a, b, 0); }
inline __m512i _mm512_unpackhi_epi32(__m512i a, __m512i b) { return emulated_unpack<4>(a, b, 2); }
inline __m512i _mm512_unpacklo_epi64(__m512i a, __m512i b) { return emulated_unpack<2>(a, b, 0); }
inline __m512i _mm512_unpackhi_epi64(__m512i a, __m512i b) { return emulated_unpack<2>(a, b, 1); }
inline __m512i _mm512_shuffle_i32x4(__m512i a, __m512i b, int order) {
  __m512i r{};
  for (int i = 0; i < 4; i++) {
    const int from = order >> 2 * i & 3;
    for (int j = 0; j < 2; j++) r[2 * i + j] = (i < 2 ? a : b)[2 * from + j];
  }
  return r;
}

// ---- BF16 and VNNI -------------------------------------------------------------------------------------------------

inline __m256bh _mm512_cvtneps_pbh(__m512 a) {
  __m256bh r{};
  for (int i = 0; i < 16; i++) emulated::set(r, i, emulated::to_bfloat16(a[i]));
  return r;
}
inline __m512 _mm512_dpbf16_ps(__m512 sum, __m512bh a, __m512bh b) {
  for (int i = 0; i < 16; i++)
    for (int j = 1; j >= 0; j--)
      sum[i] = emulated::plus_product(sum[i], emulated::part<uint16_t>(a, 2 * i + j),
                                      emulated::part<uint16_t>(b, 2 * i + j));
  return sum;
}
inline __m512i _mm512_dpwssd_epi32(__m512i sum, __m512i a, __m512i b) {
  emulated::Unsigned r = emulated::bits(sum);
  for (int i = 0; i < 32; i++)
    r[i / 2] += static_cast<unsigned>(emulated::part<int16_t>(a, i) * emulated::part<int16_t>(b, i));
  return (__m512i)r;
}
inline __m512i _mm512_dpbusd_epi32(__m512i sum, __m512i a, __m512i b) {
  emulated::Ints r = emulated::ints(sum);
  for (int i = 0; i < 64; i++) r[i / 4] += emulated::part<uint8_t>(a, i) * emulated::part<int8_t>(b, i);
  return (__m512i)r;
}

// ---- AMX -----------------------------------------------------------------------------------------------------------

namespace emulated {

struct Tile {
  int rows = 0, bytes = 0;
  uint8_t data[16][64];
};
struct TileState {
  bool configured = false;
  Tile tiles[8];
};
inline thread_local TileState tile_state;

inline Tile& tile(int number) {
  if (!tile_state.configured) fault("a tile is used without a configuration");
  Tile& t = tile_state.tiles[number];
  if (t.rows == 0 || t.bytes == 0) fault("a tile is used that the configuration leaves out");
  return t;
}
// Rows after those that an instruction writes become zero.
inline void zero(Tile& t, int from_row) { std::memset(t.data[from_row], 0, static_cast<size_t>(16 - from_row) * 64); }

// C [m, n] += A [m, k] B [k, n], in 32-bit elements that hold some numbers each.
template <class T, class Step>
void multiply(int to, int left, int right, const Step& step) {
  Tile &c = tile(to), &a = tile(left), &b = tile(right);
  if (&c == &a || &c == &b || &a == &b) fault("tiles of a product are the same");
  if (c.rows != a.rows || a.bytes != 4 * b.rows || c.bytes != b.bytes) fault("tiles of a product do not fit");
  for (int m = 0; m < c.rows; m++) {
    for (int n = 0; n < c.bytes / 4; n++) {
      T sum;
      std::memcpy(&sum, c.data[m] + 4 * n, 4);
      sum = step(sum, m, n, a, b);
      std::memcpy(c.data[m] + 4 * n, &sum, 4);
    }
    std::memset(c.data[m] + c.bytes, 0, static_cast<size_t>(64 - c.bytes));
  }
  if (c.rows < 16) zero(c, c.rows);
}

}  // namespace emulated

inline void _tile_loadconfig(const void* memory) {
  const auto* bytes = static_cast<const uint8_t*>(memory);
  if (bytes[0] != 1) emulated::fault("a palette other than 1");
  for (int i = 1; i < 16; i++)
    if (bytes[i]) emulated::fault("reserved bytes of a configuration are set");
  emulated::tile_state.configured = true;
  for (int t = 0; t < 16; t++) {
    uint16_t columns;
    std::memcpy(&columns, bytes + 16 + 2 * t, 2);
    const int rows = bytes[48 + t];
    if (columns > 64 || rows > 16 || (t >= 8 && (columns || rows)) || (rows == 0) != (columns == 0))
      emulated::fault("a configuration out of range");
    if (t >= 8) continue;
    emulated::tile_state.tiles[t].rows = rows;
    emulated::tile_state.tiles[t].bytes = columns;
    emulated::zero(emulated::tile_state.tiles[t], 0);
  }
}
inline void _tile_release() { emulated::tile_state.configured = false; }
inline void _tile_zero(int number) { emulated::zero(emulated::tile(number), 0); }
inline void _tile_loadd(int number, const void* base, long stride) {
  emulated::Tile& t = emulated::tile(number);
  emulated::zero(t, 0);
  for (int row = 0; row < t.rows; row++)
    std::memcpy(t.data[row], static_cast<const char*>(base) + row * stride, static_cast<size_t>(t.bytes));
}
inline void _tile_stored(int number, void* base, long stride) {
  const emulated::Tile& t = emulated::tile(number);
  for (int row = 0; row < t.rows; row++)
    std::memcpy(static_cast<char*>(base) + row * stride, t.data[row], static_cast<size_t>(t.bytes));
}
inline void _tile_dpbf16ps(int to, int left, int right) {  // sums of even and of odd elements, added at the end
  emulated::multiply<float>(to, left, right, [](float sum, int m, int n, const auto& a, const auto& b) {
    float sums[2] = {0, 0};
    for (int k = 0; k < b.rows; k++)
      for (int j = 0; j < 2; j++)
        sums[j] = emulated::plus_product(sums[j], emulated::part<uint16_t>(a.data[m], 2 * k + j),
                                         emulated::part<uint16_t>(b.data[k], 2 * n + j));
    return emulated::flushed(sum + emulated::flushed(sums[0] + sums[1]));
  });
}
inline void _tile_dpbusd(int to, int left, int right) {
  emulated::multiply<int32_t>(to, left, right, [](int32_t sum, int m, int n, const auto& a, const auto& b) {
    for (int k = 0; k < b.rows; k++)
      for (int j = 0; j < 4; j++) sum += a.data[m][4 * k + j] * static_cast<int8_t>(b.data[k][4 * n + j]);
    return sum;
  });
}

#endif
