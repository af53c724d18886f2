// What a set of kernels offers: a few functions, compiled for one precision and one instruction set.
//
// All kernels compute one product of a block of tokens with packed weights, and differ in what a 32-bit *unit* of both
// operands holds: one float32, two bfloat16, or four 8-bit integers; in attention also two 16-bit integers. Beside two
// bfloat16 of weights, a row may have two float32.
//
//                      units of K                          panels of columns
//              +-----------------------+               +------+------+------+
//     tokens   | A: rows of the block  |   times   K   | B: weights, packed |
//              +-----------------------+               +------+------+------+
//
// The product is a grid of tiles, a few tokens by one or a few panels each. A tile is a *task*: the caller runs all
// tasks of a grid, in any order and on any thread. A grid may be of a stretch of K; then the next one follows.
#pragma once

#include <cstddef>
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

// How 8-bit integers stand for a group of a row of A: x = scale * (q - zero).
struct RowScale {
  float scale, zero;
};

// Shapes in which kernels read packed weights and rows.
struct Format {
  Precision precision;
  int lanes;      // 32-bit elements of a vector register
  int panel;      // columns of a panel: two registers
  int elements;   // elements of K in a unit
  int unroll;     // units of K that a step of the loop over K takes: K is padded to a multiple
  int block;      // tokens that are computed together: projections.cpp says how many
  long group;     // int8: units of K that share a scale, in a row of A and in a column of weights
  int words = 1;  // 32-bit words of a row of A for a unit: two where A is float32 beside weights in bfloat16
  bool pairs_in_16_bits = false;  // int8: products of two elements are added in as many bits, so weights leave room
};

struct Weights;  // panels.h

// A block of tokens times packed weights, with an epilogue. A gated product writes half as many columns as it has.
struct Product {
  const int32_t* a;        // units of A, zero from K to the padded K
  long a_stride;           // units from row to row
  const RowScale* scales;  // int8: one for each group of a row, row after row
  int tokens;
  const Weights* weights;
  Activation activation;
  float alpha;
  bool as_units;  // write what the next product reads, where that is not float32
  void* to;
  long to_stride;         // elements from row to row
  const float* residual;  // added last, or null; as many columns as are written, one row after the other
  // What is computed of it: some panels, and a stretch of K. The sums of the stretches before are in `sums`, a float32
  // for each token and column of these panels. It may be null if the stretch is all of K. The last one writes results.
  int first_panel, end_panel;
  long first_unit, end_unit;
  float* sums;
};

// LayerNorm, or RMSNorm, of a row. In float32, whatever the precision of the products is.
struct Norm {
  bool rms = false;
  float epsilon = 0;
  int width = 0;
  const float *scale = nullptr, *bias = nullptr;  // the bias may be null
};

struct Kernels {
  const char* name;
  Format format;
  // Writes a row of float32 as units; those after it, up to `units`, stand for zero. int8: an element is multiplied by
  // its factor before, unless `factors` is null.
  void (*convert)(const float* from, const float* factors, int columns, int32_t* to, long units, RowScale* scales);
  void (*norm)(const Norm& norm, const float* from, float* to);  // `to` may be `from`
  // How many units of K a phase takes, for some tokens and a K of `units` (projections.cpp).
  long (*stretch)(int tokens, long units);
  int (*tasks)(const Product& product);
  void (*run)(const Product& product, int task);
};

extern const Kernels kFloat32Avx2, kFloat32Avx512, kBfloat16Avx512, kBfloat16Amx, kInt8Avx2, kInt8AvxVnni, kInt8Avx512,
    kInt8Amx, kBfloat16WeightsAvx2, kBfloat16WeightsAvx512;

// softmax(scale Q K^T + bias) V for each head: kernels/attention.h. Heads lie side by side in a row, and `heads /
// groups` of them read one head of keys and values.
struct Attention {
  const float *query, *key, *value;
  long query_stride, key_stride, value_stride;       // from row to row
  const float* bias;                                 // null where there is none
  long bias_batch, bias_head, bias_query, bias_key;  // strides, zero where an axis is broadcast
  float* to;                                         // one row of all heads after the other
  int batch, heads, groups, queries, keys, size;     // `size` of a head
  float scale;
  bool causal;  // query i sees the keys 0 .. i
};

struct AttentionKernels {
  const char* name;
  int (*tasks)(const Attention& attention);
  size_t (*scratch)(const Attention& attention);  // bytes that each running task needs
  void (*run)(const Attention& attention, int task, void* scratch);
};

extern const AttentionKernels kAttentionFloat32Avx2, kAttentionFloat32Avx512, kAttentionBfloat16Avx512,
    kAttentionBfloat16Amx, kAttentionInt16Avx2, kAttentionInt16AvxVnni, kAttentionInt16Avx512;

}  // namespace ffn
