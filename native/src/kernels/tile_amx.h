// The micro-kernel by AMX: sums in registers of 16 rows by 16 columns.
//
//                             a panel, 16 units down
//                              +--------+--------+
//     16 units of 32 rows      |  tmm6  |  tmm7  |      A step loads four tiles and multiplies each of the left with
//            +------+          +--------+--------+      each of the upper. A row of an upper tile is a unit of 16
//     rows   | tmm4 |          |  tmm0  |  tmm1  |      columns, as panels have it, so nothing is packed anew.
//     0-15   +------+          +--------+--------+
//     rows   | tmm5 |          |  tmm2  |  tmm3  |      Up to 16 rows take two panels: then tmm2 and tmm3 are the sums
//     16-31  +------+          +--------+--------+      of the second one, which goes through tmm6 and tmm7 as well.
//
// The shape of tiles is a state of the thread, which costs some hundred cycles to set: `Tiles` keeps it for a task, and
// a task has several tiles. Other libraries in the process may use tiles too, so a task ends without a shape.
//
// The compiler does not know that tiles read memory: barriers keep its writes before the loop, and its reads behind.
#pragma once

#include "tile.h"

namespace {

constexpr int kUnroll = 16;  // units of K that a step of the loop takes: the rows of an upper tile
constexpr int kTilesOfTask = 4;
constexpr int kTileRows = 16;
// Rows of a tile with four, two and one panels.
constexpr int kRows4 = 0, kRows2 = kTileRows, kRows1 = 2 * kTileRows;

// Units from what is read to what is fetched near. Tiles take more bytes in the same time than registers.
FFN_INLINE long near_units() { return 6144 / 4; }

FFN_INLINE void barrier() { __asm__ volatile("" ::: "memory"); }

// The shape of the tiles that follow: rows of A, and panels.
class Tiles {
 public:
  Tiles() = default;
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;
  FFN_INLINE ~Tiles() {
    if (rows_) _tile_release();
  }

  FFN_INLINE void shape(int rows, int panels) {
    if (rows == rows_ && panels == panels_) return;
    rows_ = rows;
    panels_ = panels;
    const int upper = rows < kTileRows ? rows : kTileRows, lower = panels == 2 ? upper : rows - upper;
    alignas(64) Config config{};
    const auto set = [&](int tile, int its_rows) __attribute__((always_inline)) {
      config.rows[tile] = static_cast<uint8_t>(its_rows);
      config.bytes[tile] = its_rows ? 64 : 0;
    };
    for (int tile : {0, 1, 4}) set(tile, upper);
    for (int tile : {2, 3}) set(tile, lower);
    set(5, rows - upper);
    for (int tile : {6, 7}) set(tile, kUnroll);
    // All of it is read, not only the eight bytes that GCC takes it for.
    __asm__ volatile("" : : "r"(&config) : "memory");
    _tile_loadconfig(&config);
  }

 private:
  struct Config {  // Intel's layout of palette 1
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t bytes[16] = {};
    uint8_t rows[16] = {};
  };
  int rows_ = 0, panels_ = 0;
};

// Tiles are named by literals.
#define FFN_TILE_DOT(sum, a, b)          \
  do {                                   \
    if constexpr (Dot::kElements == 2) { \
      _tile_dpbf16ps(sum, a, b);         \
    } else {                             \
      _tile_dpbusd(sum, a, b);           \
    }                                    \
  } while (false)

template <int Rows, int Panels, int Streams>
void multiply(const Source& s, bool first, float* tile, long tile_stride) {
  constexpr bool kLower = Rows > kTileRows, kSecond = Panels == 2;
  static_assert(!(kLower && kSecond), "there are eight tiles");
  constexpr long kRow = kPanel * sizeof(int32_t);
  alignas(64) float integers[kGrouped ? Rows * Panels * kPanel : 1];
  float* sums = kGrouped ? integers : tile;
  const long sums_stride = kGrouped ? Panels * kPanel : tile_stride;
  const long bytes = sums_stride * static_cast<long>(sizeof(float)), a_bytes = s.stride * 4;
  float* below = kSecond ? sums + kPanel : sums + kTileRows * sums_stride;  // the sums of tmm2 and tmm3
  barrier();
  if (first || kGrouped) {
    _tile_zero(0);
    _tile_zero(1);
    if constexpr (kLower || kSecond) {
      _tile_zero(2);
      _tile_zero(3);
    }
  } else {
    _tile_loadd(0, sums, bytes);
    _tile_loadd(1, sums + kLanes, bytes);
    if constexpr (kLower || kSecond) {
      _tile_loadd(2, below, bytes);
      _tile_loadd(3, below + kLanes, bytes);
    }
  }

  const int32_t *a = s.a, *b = s.b;
  Ahead ahead = s.ahead;
  for (long k = 0; k < s.units; k += kUnroll, a += kUnroll, b += kUnroll * kPanel) {
    _tile_loadd(6, b, kRow);
    _tile_loadd(4, a, a_bytes);
    FFN_TILE_DOT(0, 4, 6);
    _tile_loadd(7, b + kLanes, kRow);
    FFN_TILE_DOT(1, 4, 7);
    if constexpr (kLower) {
      _tile_loadd(5, a + kTileRows * s.stride, a_bytes);
      FFN_TILE_DOT(2, 5, 6);
      FFN_TILE_DOT(3, 5, 7);
    }
    if constexpr (kSecond) {
      _tile_loadd(6, b + s.next, kRow);
      FFN_TILE_DOT(2, 4, 6);
      _tile_loadd(7, b + s.next + kLanes, kRow);
      FFN_TILE_DOT(3, 4, 7);
    }
    ahead.fetch<Panels, Streams>();
  }

  _tile_stored(0, sums, bytes);
  _tile_stored(1, sums + kLanes, bytes);
  if constexpr (kLower || kSecond) {
    _tile_stored(2, below, bytes);
    _tile_stored(3, below + kLanes, bytes);
  }
  barrier();
  for (int j = 0; kGrouped && j < 2 * Panels; j++) {
    Scale scale = s.scales.of_columns(j);
    for (int row = 0; row < Rows; row++) {
      s.scales.set_row(scale, row);
      const Float sum = load(integers + row * sums_stride + j * kLanes);
      Dot::keep(tile + row * tile_stride + j * kLanes, reinterpret_cast<Dot::Sum>(sum), first, scale);
    }
  }
}
#undef FFN_TILE_DOT

}  // namespace

#include "chunks.h"
