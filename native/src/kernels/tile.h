// What a micro-kernel is to the grid of tiles: tile_registers.h and tile_amx.h define `multiply`, and what it can take.
#pragma once

#include <utility>

#include "kernels.h"
#include "scales.h"

namespace {

constexpr bool kGrouped = Dot::kElements == 4;  // int8: groups of K have scales
constexpr long kLine = 64;                      // bytes of a line of the cache
constexpr long kUnitsOfLine = kLine / 4;

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

// Lines of panels that are fetched while others are multiplied: some lines of each panel for each step of the loop.
struct Ahead {
  const int32_t* from = nullptr;
  long lines = 0;
  bool near = false;  // into the nearest cache; of several panels alone

  template <int Panels>
  FFN_INLINE void fetch(long next) {
    if (Panels > 1 && near) return fetch<Panels, 3>(next, kUnitsOfLine);
    fetch<Panels, 2>(next, kUnitsOfLine);
  }

 private:
  template <int Panels, int Near>
  FFN_INLINE void fetch(long next, long line) {
    for (const int32_t* end = from + lines * line; from < end; from += line) {
      for (int panel = 0; panel < Panels; panel++) __builtin_prefetch(from + panel * next, 0, Near);
    }
  }
};

// What a tile is computed from: rows of A, and panels of B, which are `next` units apart.
struct Source {
  const int32_t* a;
  long stride;
  const int32_t* b;
  long next, units;
  Ahead ahead = {};
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
