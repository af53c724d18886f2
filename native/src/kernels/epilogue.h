// What is done with a tile of sums before it leaves the first-level cache: bias, activation, factor, residual,
// store.
//
//     not gated    | act(sum + bias)           | act(sum + bias)   |  ->  two registers of the result
//     gated        | act(sum + bias)     times | sum + bias        |  ->  one register
//
// Columns past the last are not written: a row of the result may end where memory ends.
#pragma once

#include "activations.h"
#include "panels.h"
#include "rows.h"
#include "tile.h"

namespace {

constexpr bool kRoundedOperands = Dot::kElements > Dot::kWords;  // to bfloat16 or 8 bits

template <class D = Dot>
FFN_INLINE void put(const ffn::Product& p, long row, long column, Float x) {
  const long left = p.weights->columns - column;
  if (left <= 0) return;
  const int count = left < kLanes ? static_cast<int>(left) : kLanes;
  if constexpr (D::kNarrow) {
    if (p.as_units) return D::store_narrow(static_cast<uint16_t*>(p.to) + row * p.to_stride + column, x, count);
  }
  if (p.residual) {
    x = add(x, load_part(p.residual + row * p.weights->columns + column, count));
  }
  store_part(static_cast<float*>(p.to) + row * p.to_stride + column, x, count);
}

// The tile begins at a token and a panel of the product.
void finish(const ffn::Product& p, const float* tile, int token, int rows, int panel, int panels) {
  const ffn::Weights& w = *p.weights;
  const float* bias = w.bias.data();
  with_activation<kRoundedOperands>(p.activation, p.alpha, [&](const auto& act) __attribute__((always_inline)) {
    for (int i = 0; i < rows; i++) {
      const long row = token + i;
      for (int j = 0; j < panels; j++, tile += kPanel) {
        const long column = static_cast<long>(panel + j) * kPanel;
        const Float left = add(load(tile), load(bias + column));
        const Float right = add(load(tile + kLanes), load(bias + column + kLanes));
        if (w.gated) {
          put(p, row, column / 2, mul(act(left), right));
        } else {
          put(p, row, column, act(left));
          put(p, row, column + kLanes, act(right));
        }
      }
    }
  });
}

}  // namespace
