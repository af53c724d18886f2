// How an attention is cut into tasks and blocks, and where a task keeps what it works with.
#pragma once

#include "memory.h"
#include "tile.h"

namespace {

// Operands are 16-bit integers, which have scales.
constexpr bool kScaled = Dot::kPrecision == ffn::Precision::kInt8;
template <class D = Dot>
constexpr float most_weight() {
  if constexpr (kScaled) return D::kMostWeight;
  return 1;
}
constexpr float kOne = most_weight();             // what a unit of weights holds for 1
constexpr float kReach = kScaled ? 11.0f : 0.0f;  // about the logarithm of it
constexpr int kQueries = 4 * kRows1;              // rows that are computed together
constexpr int kKeys = 512;                        // of a block, at most
constexpr int kFewestScaled = 28;                 // rows of a task that are worth the conversions
constexpr int kRowsOfTask = 512, kFewestRows = 256, kEnoughTasks = 16;
// Keys whose weights are written: whole registers, and what a step of the loop over them reads.
constexpr int kStepOfLoop = Dot::kElements * kUnroll;
constexpr int kStep = kStepOfLoop > kLanes ? kStepOfLoop : kLanes;
constexpr float kInfinity = __builtin_inff();

FFN_INLINE long up_to_multiple(long n, long of) { return (n + of - 1) / of * of; }
FFN_INLINE long units_of(long elements) { return up_to_multiple(elements, Dot::kElements * kUnroll) / Dot::kElements; }
FFN_INLINE long least(long a, long b) { return a < b ? a : b; }

// How an attention is cut, and where a task keeps what it works with.
struct Plan {
  long rows, chunks;  // of queries by heads that share keys; parts that they are cut into
  long blocks, keys;  // blocks of keys, and the keys of each
  long units, deep;   // of a row of Q or K: that are multiplied, and that are stored
  long panels;        // of V
  long row_stride, score_stride, weight_stride, sum_stride;
  int32_t *k, *v, *staged, *q, *weights;
  float *scores, *sums, *largest, *base, *total;
  float *query_scales, *value_scales;  // of rows that are computed together, and of columns
  size_t bytes;

  FFN_INLINE Plan(const ffn::Attention& a, char* memory) {
    rows = static_cast<long>(a.heads / a.groups) * a.queries;
    const long heads = static_cast<long>(a.batch) * a.groups;
    chunks = (rows + kRowsOfTask - 1) / kRowsOfTask;
    const long finer = least((rows + kFewestRows - 1) / kFewestRows, (kEnoughTasks + heads - 1) / heads);
    if (finer > chunks) chunks = finer;
    blocks = (a.keys + kKeys - 1) / kKeys;
    keys = blocks ? up_to_multiple((a.keys + blocks - 1) / blocks, kPanel) : 0;
    units = units_of(a.size);
    deep = up_to_multiple(units, kLanes);
    panels = (a.size + kPanel - 1) / kPanel;
    row_stride = deep + kLanes;
    score_stride = keys + kLanes;
    weight_stride = keys / Dot::kElements + kLanes;
    sum_stride = panels * kPanel;

    const long rows_of_task = (rows + chunks - 1) / (chunks ? chunks : 1);
    ffn::Pieces pieces(memory);
    k = pieces.take<int32_t>(keys * deep);
    v = pieces.take<int32_t>(panels * kPanel * units_of(keys));
    staged = pieces.take<int32_t>(kLanes * row_stride);
    q = pieces.take<int32_t>(kQueries * row_stride);
    scores = pieces.take<float>(kQueries * score_stride);
    weights = pieces.take<int32_t>(kQueries * weight_stride);
    sums = pieces.take<float>(rows_of_task * sum_stride);
    largest = pieces.take<float>(rows_of_task);
    base = pieces.take<float>(rows_of_task);
    total = pieces.take<float>(rows_of_task);
    query_scales = pieces.take<float>(kQueries);
    value_scales = pieces.take<float>(kScaled ? sum_stride : 0);
    bytes = pieces.bytes();
  }
};

}  // namespace
