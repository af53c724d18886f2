// A tile from all of K, or a stretch of it, a chunk after the other.
//
//     K   |---- chunk ----|---- chunk ----|-- rest --|
//             registers       registers      registers
//                 \_______________|______________/
//                            sum in the tile
//
// float32 cuts K so that its sums are split, 8-bit integers cut it into the groups that have their own scales.
#pragma once

#include "tile.h"

namespace {

constexpr long kChunk = Dot::kChunk;
constexpr int kTile = (kRows1 + 2) * kPanel;  // as large as 3 x 4 or 7 x 2 panels

// The sums are added to the tile, unless they are its first.
FFN_INLINE void multiply_all(Multiply multiply, Source s, bool first, float* tile, long stride) {
  for (long left = s.units; left > 0; left -= kChunk, first = false) {
    s.units = left < kChunk ? left : kChunk;
    multiply(s, first, tile, stride);
    if (kGrouped) s.scales.next();
    s.a += s.units * Dot::kWords;
    s.b += s.units * kPanel;
    s.ahead.skip(s.units / kUnroll);
  }
}

}  // namespace
