// The micro-kernel: a few rows of A times one or a few panels, summed in registers.
//
//                         one row of a panel: two registers
//                              +--------+--------+
//                              |   b0   |   b1   |
//     unit k of each row       +--------+--------+
//            +---+             +--------+--------+
//     row 0  | a |  broadcast  |  sum   |  sum   |       14 x 2 sums of AVX-512's 32 registers,
//     row 1  | a |             |  sum   |  sum   |        6 x 2 of AVX2's 16
//      ...   | a |             |  ...   |  ...   |
//            +---+             +--------+--------+
//
// Each step loads a row of the panel once and uses it for all rows of A. Few rows take several panels, so that the
// steps do not wait for each other: the latency of a step is four to six cycles.
//
// The loops over rows and registers are unrolled by templates: the sums stay in registers only if each has a name.
#pragma once

#include <utility>

#include "kernels.h"

namespace {

template <class Use, int... I>
FFN_INLINE void unrolled(const Use& use, std::integer_sequence<int, I...>) {
  (use(std::integral_constant<int, I>{}), ...);
}
template <int Count, class Use>
FFN_INLINE void repeat(const Use& use) {
  unrolled(use, std::make_integer_sequence<int, Count>{});
}

using Element = Dot::Element;
constexpr int kPanel = 2 * kLanes;
constexpr long kLine = 64;  // bytes of a line of the cache
// Rows of a tile with four, two and one panels: as many as there are registers for.
constexpr int kRows4 = kLanes == 16 ? 3 : 1, kRows2 = kLanes == 16 ? 7 : 3, kRows1 = kLanes == 16 ? 14 : 6;

// What a tile is computed from: rows of A, and panels of B, which are `next` units apart. Meanwhile it prefetches the
// share of what follows that `ahead` names, some lines of the cache for each kUnroll units.
struct Source {
  const int32_t* a;
  long stride;
  const int32_t* b;
  long next, units;
  const char* ahead = nullptr;
  long lines = 0;
};

// The sums are added to the tile unless they are its first. A row of the tile is `tile_stride` elements.
template <int Rows, int Panels>
void multiply(const Source& s, bool first, Element* tile, long tile_stride) {
  constexpr int kRegisters = 2 * Panels;
  Dot::Sum sums[Rows][kRegisters];
  repeat<Rows * kRegisters>([&](auto i) __attribute__((always_inline)) {
    constexpr int row = i / kRegisters, j = i % kRegisters;
    sums[row][j] = Dot::zero();
  });
  // An address is base + index * 1 or 2, so one base serves three rows.
  const long stride = s.stride, next = s.next;
  const int32_t *rows[(Rows + 2) / 3], *b = s.b;
  const char* ahead = s.ahead;
  repeat<(Rows + 2) / 3>([&](auto i) __attribute__((always_inline)) { rows[i] = s.a + 3 * i * stride; });

#pragma GCC unroll 1
  for (long k = 0; k < s.units; k += ffn::kUnroll) {
    repeat<ffn::kUnroll>([&](auto u) __attribute__((always_inline)) {
      Float columns[kRegisters];
      repeat<kRegisters>([&](auto j) __attribute__((always_inline)) {
        constexpr int panel = j / 2, offset = u * kPanel + j % 2 * kLanes;
        columns[j] = load(reinterpret_cast<const float*>(b + panel * next + offset));
      });
      repeat<Rows>([&](auto row) __attribute__((always_inline)) {
        constexpr int of_base = row % 3, unit = u;
        const Float x = broadcast(rows[row / 3] + of_base * stride + unit);
        repeat<kRegisters>(
            [&](auto j) __attribute__((always_inline)) { sums[row][j] = Dot::step(sums[row][j], x, columns[j]); });
      });
    });
    for (const char* end = ahead + s.lines * kLine; ahead < end; ahead += kLine) __builtin_prefetch(ahead, 0, 2);
    b += ffn::kUnroll * kPanel;
    repeat<(Rows + 2) / 3>([&](auto i) __attribute__((always_inline)) { rows[i] += ffn::kUnroll; });
  }

  repeat<Rows * kRegisters>([&](auto i) __attribute__((always_inline)) {
    constexpr int row = i / kRegisters, j = i % kRegisters;
    Dot::keep(tile + row * tile_stride + j * kLanes, sums[row][j], first);
  });
}

using Multiply = void (*)(const Source&, bool, Element*, long);

template <int Panels, int... I>
FFN_INLINE Multiply pick(int rows, std::integer_sequence<int, I...>) {
  static constexpr Multiply kTable[] = {&multiply<I + 1, Panels>...};
  return kTable[rows - 1];
}

// The micro-kernel for 1 .. MostRows rows.
template <int Panels, int MostRows>
FFN_INLINE Multiply pick(int rows) {
  return pick<Panels>(rows, std::make_integer_sequence<int, MostRows>{});
}

// All units, a chunk after the other.
FFN_INLINE void multiply_all(Multiply multiply, Source s, bool first, Element* tile, long tile_stride) {
  for (long left = s.units; left > 0; left -= Dot::kChunk, first = false) {
    s.units = left < Dot::kChunk ? left : Dot::kChunk;
    multiply(s, first, tile, tile_stride);
    s.a += s.units;
    s.b += s.units * kPanel;
    s.ahead += s.units / ffn::kUnroll * s.lines * kLine;
  }
}

}  // namespace
