#include "panels.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace ffn {
namespace {

// A column of a panel: of which matrix, and which column of it.
struct Column {
  const Matrix* matrix;
  const float* bias;
  int n;
  bool there() const { return n < matrix->columns; }
  // Element k as 8-bit integers stand for it.
  float smoothed(int k) const { return matrix->at(k, n) * (matrix->smoothing ? matrix->smoothing[k] : 1.0f); }
};

// The scale of some rows of a column. With `pairs`, two neighbours add up to 126 at most, and times 255 that fits 16
// bits. Halves of 127 would round up, so that equal weights were off.
float scale_of(const Column& column, int first, int last, bool pairs) {
  float scale = 0;
  const auto take = [&](float least) {
    if (least > scale || least != least) scale = least;  // NaN stays, and makes the column NaN
  };
  for (int k = first; k < last; k++) take(std::fabs(column.smoothed(k)) / 127.0f);
  for (int k = first; pairs && k + 1 < last; k += 2)
    take(std::fabs(column.smoothed(k) / 126.0f + column.smoothed(k + 1) / 126.0f));
  return scale == 0 ? 1.0f : scale;
}

int8_t quantised(float value, float scale) {
  const float q = std::nearbyint(value / scale);
  return q >= -127 && q <= 127 ? static_cast<int8_t>(q) : 0;  // 0 where the scale is not finite
}

}  // namespace

uint16_t to_bfloat16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if (value != value) return static_cast<uint16_t>(bits >> 16 | 0x40);  // rounding could turn a NaN into infinity
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

long padded_units(const Format& format, int k) {
  const long elements = static_cast<long>(format.elements) * format.unroll;
  return (k + elements - 1) / elements * format.unroll;
}

Weights pack(const Format& format, Matrix matrix, const float* bias, Matrix other, const float* other_bias) {
  Weights w;
  w.rows = matrix.rows;
  w.columns = matrix.columns;
  w.gated = static_cast<bool>(other);
  w.units = padded_units(format, matrix.rows);
  const int written = w.gated ? format.lanes : format.panel;  // columns of the result that a panel makes
  w.panels = (matrix.columns + written - 1) / written;

  const size_t all = static_cast<size_t>(w.panels) * static_cast<size_t>(format.panel);
  w.data = allocate_array<int32_t>(all * static_cast<size_t>(w.units));
  w.bias.assign(all, 0.0f);
  if (format.precision == Precision::kInt8) {
    w.groups = (w.units + format.group - 1) / format.group;
    w.scales.assign(all * static_cast<size_t>(w.groups), 1.0f);
    w.sums.assign(all * static_cast<size_t>(w.groups), 0.0f);
    for (int k = 0; matrix.smoothing && k < matrix.rows; k++) w.inverse.push_back(1.0f / matrix.smoothing[k]);
  }

  const int group_rows = static_cast<int>(format.group) * format.elements;
  for (size_t c = 0; c < all; c++) {
    const int panel = static_cast<int>(c) / format.panel, lane = static_cast<int>(c) % format.panel;
    const bool second = w.gated && lane >= format.lanes;
    const Column column{second ? &other : &matrix, second ? other_bias : bias,
                        panel * written + (second ? lane - format.lanes : lane)};
    if (!column.there()) continue;
    if (column.bias) w.bias[c] = column.bias[column.n];
    const auto of_group = [&](int group) {
      return static_cast<size_t>((panel * w.groups + group) * format.panel + lane);
    };
    for (int group = 0; group < w.groups; group++) {
      const int first = group * group_rows;
      w.scales[of_group(group)] =
          scale_of(column, first, std::min(first + group_rows, matrix.rows), format.pairs_in_16_bits);
    }

    int32_t* to = w.data.get() + static_cast<long>(panel) * w.units * format.panel + lane;
    for (int k = 0; k < matrix.rows; k++) {
      char* unit = reinterpret_cast<char*>(to + k / format.elements * static_cast<long>(format.panel));
      const float value = column.matrix->at(k, column.n);
      const int part = k % format.elements;
      switch (format.precision) {
        case Precision::kFloat32: std::memcpy(unit, &value, sizeof value); break;
        case Precision::kBfloat16: {
          const uint16_t half = to_bfloat16(value);
          std::memcpy(unit + 2 * part, &half, sizeof half);
          break;
        }
        case Precision::kInt8: {
          const size_t at = of_group(k / group_rows);
          const int8_t q = quantised(column.smoothed(k), w.scales[at]);
          std::memcpy(unit + part, &q, sizeof q);
          w.sums[at] += q;
          break;
        }
      }
    }
  }
  return w;
}

}  // namespace ffn
