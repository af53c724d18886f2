// What a micro-kernel is to the grid of tiles: tile_registers.h and tile_amx.h define `multiply`, and what it can take.
#pragma once

#include <utility>

#include "kernels.h"
#include "scales.h"

namespace {

constexpr bool kGrouped = Dot::kElements == 4;  // int8: groups of K have scales
constexpr long kLine = 64;                      // bytes of a line of the cache

// Fetches the lines of some elements, to read or to write them. A processor guesses what follows in memory, but not the
// next row of some columns of a matrix. It drops requests while many others are under way. `Near` is 3 for the nearest
// cache, 2 for the second-level one.
template <int Write, int Near = 3>
FFN_INLINE void fetch_lines(const void* from, long bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(from), end = begin + static_cast<uintptr_t>(bytes);
  for (uintptr_t line = begin & ~uintptr_t{kLine - 1}; line < end; line += kLine)
    __builtin_prefetch(reinterpret_cast<const void*>(line), Write, Near);
}
FFN_INLINE void fetch_to_read(const float* from, long count) { fetch_lines<0>(from, 4 * count); }
FFN_INLINE void fetch_to_write(const void* to, long bytes) { fetch_lines<1>(to, bytes); }

// What a tile is computed from: rows of A, and panels of B, which are `next` units apart. Meanwhile it prefetches the
// share of what follows that `ahead` names, some lines of the cache for each step of the loop.
struct Source {
  const int32_t* a;
  long stride;
  const int32_t* b;
  long next, units;
  const char* ahead = nullptr;
  long lines = 0;
  Scales scales = {};
};

// The sums are added to the tile unless they are its first. A row of the tile is `tile_stride` elements.
template <int Rows, int Panels>
void multiply(const Source& s, bool first, float* tile, long tile_stride);

using Multiply = void (*)(const Source&, bool, float*, long);

template <int Panels, int... I>
FFN_INLINE Multiply pick(int rows, std::integer_sequence<int, I...>) {
  static constexpr Multiply kTable[] = {&multiply<I + 1, Panels>...};
  return kTable[rows - 1];
}

// The micro-kernel for 1 .. MostRows rows, if there is one for as many panels.
template <int Panels, int MostRows>
FFN_INLINE Multiply pick(int rows) {
  if constexpr (MostRows > 0) return pick<Panels>(rows, std::make_integer_sequence<int, MostRows>{});
  return nullptr;
}

}  // namespace
