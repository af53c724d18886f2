// int8: what the integers of a tile stand for, in one group of K.
#pragma once

#include "kernels.h"

namespace {

constexpr int kPanel = 2 * kLanes;

// Of a row, and of the columns of a register.
struct Scale {
  ffn::RowScale row;
  Float columns, sums;
};

// Of all rows and columns of a tile.
struct Scales {
  const ffn::RowScale* rows;
  long groups;  // from row to row
  const float *columns, *sums;
  long panel;  // from panel to panel

  FFN_INLINE void next() {
    rows++;
    columns += kPanel;
    sums += kPanel;
  }
  // Those of register `j` of a row of the tile; its rows follow by `set_row`.
  FFN_INLINE Scale of_columns(int j) const {
    const long at = j / 2 * panel + j % 2 * kLanes;
    return {{}, load(columns + at), load(sums + at)};
  }
  FFN_INLINE void set_row(Scale& scale, int row) const { scale.row = rows[row * groups]; }
};

}  // namespace
