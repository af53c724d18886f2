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

// Lines of weights that are fetched while others are multiplied: some of each stream for each step of the loop.
struct Ahead {
  const int32_t* from = nullptr;  // in the first stream
  long lines = 0;                 // of each stream, for each step
  long next = 0;                  // units from stream to stream
  bool near = false;              // into the nearest cache; of several panels alone

  template <int Panels, int Streams>
  FFN_INLINE void fetch() {
    Panels > 1 && near ? fetch_into<3, Streams>() : fetch_into<2, Streams>();
  }
  FFN_INLINE void skip(long steps) { from += steps * lines * kUnitsOfLine; }

 private:
  template <int Near, int Streams>
  FFN_INLINE void fetch_into() {
    for (const int32_t* end = from + lines * kUnitsOfLine; from < end; from += kUnitsOfLine) {
      for (int stream = 0; stream < Streams; stream++) __builtin_prefetch(from + stream * next, 0, Near);
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

// The sums are added to the tile unless they are its first. A row of the tile is `tile_stride` elements. The loop has
// no register to spare for the number of streams.
template <int Rows, int Panels, int Streams>
void multiply(const Source& s, bool first, float* tile, long tile_stride);

using Multiply = void (*)(const Source&, bool, float*, long);

template <int Panels, int Streams, int... I>
FFN_INLINE Multiply pick(int rows, std::integer_sequence<int, I...>) {
  static constexpr Multiply kTable[] = {&multiply<I + 1, Panels, Streams>...};
  return kTable[rows - 1];
}

// The micro-kernel for 1 .. MostRows rows, if there is one for as many panels.
template <int Panels, int MostRows, int Streams = Panels>
FFN_INLINE Multiply pick(int rows) {
  if constexpr (MostRows > 0) return pick<Panels, Streams>(rows, std::make_integer_sequence<int, MostRows>{});
  return nullptr;
}

}  // namespace
