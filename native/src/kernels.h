// What a set of kernels offers: a few functions, compiled for one precision and one instruction set.
//
// All kernels compute one product of a block of tokens with packed weights, and differ in what a 32-bit *unit* of both
// operands holds: one float32, two bfloat16, or four 8-bit integers.
//
//                      units of K                          panels of columns
//              +-----------------------+               +------+------+------+
//     tokens   | A: rows of the block  |   times   K   | B: weights, packed |
//              +-----------------------+               +------+------+------+
//
// The product is a grid of tiles, a few tokens by one or a few panels each. A tile is a *task*: the caller runs all
// tasks of a grid, in any order and on any thread.
#pragma once

#include <cstdint>

namespace ffn {

enum class Precision { kFloat32, kBfloat16, kInt8 };

enum class Activation {
  kIdentity,
  kRelu,
  kRelu2,
  kGelu,
  kGeluTanh,
  kSwish,
  kMish,
  kHardSwish,
  kTanh,
  kSigmoid,
  kElu,
  kLeakyRelu,
  kSoftplus,
  kSoftsign,
};

// How 8-bit integers stand for a row of A: x = scale * (q - zero).
struct RowScale {
  float scale;
  int32_t zero;
};

// Shapes in which kernels read packed weights and rows.
struct Format {
  Precision precision;
  int lanes;     // 32-bit elements of a vector register
  int panel;     // columns of a panel: two registers
  int elements;  // elements of K in a unit
  int block;     // tokens that are computed together, so that their hidden activations stay near
};

// K is padded to a multiple of this many units, by which the loops over K are unrolled.
constexpr int kUnroll = 4;

struct Weights;  // panels.h

// A block of tokens times packed weights, with an epilogue. A gated product writes half as many columns as it has.
struct Product {
  const int32_t* a;        // units of A, zero from K to the padded K
  long a_stride;           // units from row to row
  const RowScale* scales;  // int8: one for each row
  int tokens;
  const Weights* weights;
  Activation activation;
  float alpha;
  bool as_units;  // write what the next product reads, where that is not float32
  void* to;
  long to_stride;  // elements from row to row
};

struct Kernels {
  const char* name;
  Format format;
  // Writes a row of float32 as units; zeroes the units after it, up to `units`.
  void (*convert)(const float* from, int columns, int32_t* to, long units, RowScale* scale);
  int (*tasks)(int tokens, int panels);
  void (*run)(const Product& product, int task);
};

extern const Kernels kFloat32Avx2, kFloat32Avx512, kBfloat16Avx512, kInt8Avx512;

}  // namespace ffn
