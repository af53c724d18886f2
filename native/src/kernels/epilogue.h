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

// Where a register of results goes, row after row.
struct Results {
  char* to;
  const float* residual;
  long bytes, next, residual_next;  // of an element, and from row to row
  int count;

  FFN_INLINE Results(const ffn::Product& p, long row, long column)
      : bytes(Dot::kNarrow && p.as_units ? 2 : 4), next(p.to_stride * bytes), residual_next(p.weights->columns) {
    const long left = p.weights->columns - column;
    count = left < kLanes ? left < 0 ? 0 : static_cast<int>(left) : kLanes;
    to = static_cast<char*>(p.to) + row * next + column * bytes;
    residual = p.residual ? p.residual + row * residual_next + column : nullptr;
  }

  template <class D = Dot>
  FFN_INLINE void put(Float x) {
    if constexpr (D::kNarrow) {
      if (bytes == 2) {
        D::store_narrow(reinterpret_cast<uint16_t*>(to), x, count);
        to += next;
        return;
      }
    }
    if (residual) {
      x = add(x, load_part(residual, count));
      residual += residual_next;
    }
    store_part(reinterpret_cast<float*>(to), x, count);
    to += next;
  }
};

// The tile begins at a token and a panel of the product.
void finish(const ffn::Product& p, const float* tile, int token, int rows, int panel, int panels) {
  const ffn::Weights& w = *p.weights;
  with_activation<kRoundedOperands>(p.activation, p.alpha, [&](const auto& act) __attribute__((always_inline)) {
    for (int j = 0; j < panels; j++) {
      const long column = static_cast<long>(panel + j) * kPanel, stride = panels * kPanel;
      const float *sums = tile + j * kPanel, *end = sums + rows * stride;
      const Float left = load(w.bias.data() + column), right = load(w.bias.data() + column + kLanes);
      Results first(p, token, w.gated ? column / 2 : column), second(p, token, column + kLanes);
      if (w.gated) {
        for (; sums < end; sums += stride) first.put(mul(act(add(load(sums), left)), add(load(sums + kLanes), right)));
      } else {
        for (; sums < end; sums += stride) {
          first.put(act(add(load(sums), left)));
          second.put(act(add(load(sums + kLanes), right)));
        }
      }
    }
  });
}

}  // namespace
