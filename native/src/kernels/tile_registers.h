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

#include "instruction_sets.h"
#include "tile.h"

namespace {

template <class Use, int... I>
FFN_INLINE void unrolled(const Use& use, std::integer_sequence<int, I...>) {
  (use(std::integral_constant<int, I>{}), ...);
}
template <int Count, class Use>
FFN_INLINE void repeat(const Use& use) {
  unrolled(use, std::make_integer_sequence<int, Count>{});
}

constexpr int kUnroll = 4;  // units of K that a step of the loop takes
constexpr int kTilesOfTask = 1;
// Rows of a tile with four, two and one panels: as many as there are registers for.
constexpr int kRows4 = kLanes == 16 ? 3 : 1, kRows2 = kLanes == 16 ? 7 : 3, kRows1 = kLanes == 16 ? 14 : 6;

// Units from what is read to what is fetched near.
FFN_INLINE long near_units() { return ffn::fetching().near / 4; }

// The shape of the tiles that follow; registers need none.
struct Tiles {
  FFN_INLINE void shape(int, int) {}
};

template <int Rows, int Panels, int Streams>
void multiply(const Source& s, bool first, float* tile, long tile_stride) {
  constexpr int kRegisters = 2 * Panels;
  Dot::Sum sums[Rows][kRegisters];
  repeat<Rows * kRegisters>([&](auto i) __attribute__((always_inline)) {
    constexpr int row = i / kRegisters, j = i % kRegisters;
    sums[row][j] = Dot::zero();
  });
  // An address is base + index * 1 or 2, so one base serves three rows.
  const long stride = s.stride, next = s.next;
  const int32_t *rows[(Rows + 2) / 3], *b = s.b;
  Ahead ahead = s.ahead;
  repeat<(Rows + 2) / 3>([&](auto i) __attribute__((always_inline)) { rows[i] = s.a + 3 * i * stride; });

#pragma GCC unroll 1
  for (long k = 0; k < s.units; k += kUnroll) {
    repeat<kUnroll>([&](auto u) __attribute__((always_inline)) {
      repeat<Dot::kWords>([&](auto w) __attribute__((always_inline)) {
        Float columns[kRegisters];
        repeat<kRegisters>([&](auto j) __attribute__((always_inline)) {
          constexpr int panel = j / 2, offset = u * kPanel + j % 2 * kLanes;
          columns[j] = Dot::columns(load(reinterpret_cast<const float*>(b + panel * next + offset)), w);
        });
        repeat<Rows>([&](auto row) __attribute__((always_inline)) {
          constexpr int of_base = row % 3, word = u * Dot::kWords + w;
          const Float x = broadcast(rows[row / 3] + of_base * stride + word);
          repeat<kRegisters>(
              [&](auto j) __attribute__((always_inline)) { sums[row][j] = Dot::step(sums[row][j], x, columns[j]); });
        });
      });
    });
    ahead.fetch<Panels, Streams>();
    b += kUnroll * kPanel;
    repeat<(Rows + 2) / 3>([&](auto i) __attribute__((always_inline)) { rows[i] += kUnroll * Dot::kWords; });
  }

  // In groups, column after column, since all rows use the scales of a register's columns. Otherwise row after row, so
  // that GCC keeps the sums of bfloat16_weights_avx2.cpp in registers.
  const auto keep = [&](auto is_first) __attribute__((always_inline)) {
    Scale scale{};
    repeat<Rows * kRegisters>([&](auto i) __attribute__((always_inline)) {
      constexpr int row = kGrouped ? i % Rows : i / kRegisters, j = kGrouped ? i / Rows : i % kRegisters;
      if (kGrouped && row == 0) scale = s.scales.of_columns(j);
      if (kGrouped) s.scales.set_row(scale, row);
      Dot::keep(tile + row * tile_stride + j * kLanes, sums[row][j], is_first, scale);
    });
  };
  first ? keep(std::true_type{}) : keep(std::false_type{});
}

}  // namespace

#include "chunks.h"
