// Weights, packed once into the order in which a kernel reads them.
//
//   a model's matrix, [K, N]             panels of P columns, K down           one row of a panel
//   +--------------------------+         +------+ +------+ +------+
//   | k0  n0 n1 n2 ...         |         | k0   | | k0   | | k0   |            P units: column 0, 1, 2 ...
//   | k1                       |   ->    | k1   | | k1   | | k1   |            a unit: k, k+1 .. of one column,
//   | ..                       |         | ..   | | ..   | | ..   |            as many as 32 bits hold
//   +--------------------------+         +------+ +------+ +------+
//
// A panel lies in one piece, so that a tile reads it from end to end. Columns past N and elements past K are zero.
//
// A gated product has two matrices. Their columns take turns by the width of a register, so that a panel holds both
// factors of the same columns and the epilogue multiplies two registers:
//
//   panel 0: | activated 0 .. L-1 | other 0 .. L-1 |     panel 1: | activated L .. 2L-1 | other L .. 2L-1 |   ...
//
// int8: K is cut into groups, and each column of a group is scaled by its largest magnitude. `sums` are the sums of
// its integers: the activations are unsigned with a zero point, and  sum (a - zero) b = sum a b - zero * sum b.
// Smoothing moves the spread of the activations into the weights, where each column has its scale (Xiao et al. 2022):
// sum x w = sum (x / s) (s w), with a factor s for each k.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels.h"
#include "memory.h"

namespace ffn {

// A weight in a model's memory: element (k, n), in either order, optionally some columns of a wider matrix.
struct Matrix {
  const float* data = nullptr;
  int rows = 0, columns = 0;  // K, N
  long row_stride = 0, column_stride = 0;
  const float* smoothing = nullptr;  // int8: the factor of each row, or null

  float at(int k, int n) const { return data[k * row_stride + n * column_stride]; }
  Matrix part(int first, int count) const {
    return {data + first * column_stride, rows, count, row_stride, column_stride, smoothing};
  }
  explicit operator bool() const { return data != nullptr; }
};

struct Weights {
  int rows = 0;     // K
  int columns = 0;  // that the product writes: N
  int panels = 0;
  long units = 0;  // of K, padded
  bool gated = false;
  Aligned<int32_t> data;            // panels, one after the other
  std::vector<float> bias;          // in the order of the panels, zero where there is none
  long groups = 0;                  // int8: of K
  std::vector<float> scales, sums;  // int8: of a panel's columns, group after group, panel after panel
  std::vector<float> inverse;       // int8: what each k of the activations is multiplied by; empty without smoothing
};

// `other` and `other_bias` belong to the second factor of a gated product. Biases may be null.
Weights pack(const Format& format, Matrix matrix, const float* bias, Matrix other, const float* other_bias);

long padded_units(const Format& format, int k);
uint16_t to_bfloat16(float value);  // to nearest, ties to even

}  // namespace ffn
