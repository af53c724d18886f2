// A tile from all of K, a chunk after the other.
//
//     K   |---- chunk ----|---- chunk ----|-- rest --|
//             registers       registers      registers
//                 \_______________|______________/
//                            sum in the tile
//
// float32 cuts K so that its sums are split. 8-bit integers cut it into the groups that have their own scales, and
// their sums go through a tile of integers to be scaled.
#pragma once

#include "tile.h"

namespace {

constexpr long kChunk = Dot::kChunk;
constexpr int kTile = (kRows1 + 2) * kPanel;  // as large as 3 x 4 or 7 x 2 panels

// The sums are added to a tile of `rows` by `panels`, unless they are its first.
template <class D = Dot>
FFN_INLINE void multiply_all(Multiply multiply, Source s, int rows, int panels, bool first, float* tile, long stride) {
  constexpr bool kScaled = D::kElements == 4;
  alignas(64) float integers[kScaled ? kTile : 1];
  for (long left = s.units; left > 0; left -= kChunk, first = false) {
    s.units = left < kChunk ? left : kChunk;
    multiply(s, first || kScaled, kScaled ? integers : tile, stride);
    if constexpr (kScaled) {
      const Scales& scales = s.scales;
      for (int row = 0; row < rows; row++) {
        for (int lane = 0; lane < panels * kPanel; lane += kLanes) {
          const long at = row * stride + lane, column = lane / kPanel * scales.panel + lane % kPanel;
          const Float sum =
              D::scaled(integers + at, scales.rows[row * scales.groups], scales.columns + column, scales.sums + column);
          store(tile + at, first ? sum : add(load(tile + at), sum));
        }
      }
      s.scales.next();
    }
    s.a += s.units * Dot::kWords;
    s.b += s.units * kPanel;
    s.ahead += s.units / kUnroll * s.lines * kLine;
  }
}

}  // namespace
