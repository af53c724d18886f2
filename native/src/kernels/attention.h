// Attention of a head: scores of queries and keys, softmax, and the mean of the values that it weighs.
//
//                  keys of a block                                       columns of the head
//               +------------------+                                      +-----------+
//               |  K^T, as panels  |                                      |     V,    |
//               +------------------+                                  keys| as panels |
//     +------+  +------------------+   softmax   +------------------+     +-----------+     +-----------+
//     |  Q   |  |      scores      |    ---->    |     weights      |                       |   sums    |
//     +------+  +------------------+             +------------------+                       +-----------+
//      a few rows
//
// The products are those of tile.h: keys and values are packed into panels here, once for all queries of a task. A task
// is a head of keys and values of one batch, with some rows of queries: heads that share keys are rows, too.
//
// Keys come in blocks, so that memory does not grow with the square of the length. Each row keeps the largest score so
// far, the sum of exponentials, and the sum of values, and takes all three to a new largest score:
//
//     sums = sums exp(old largest - largest) + exp(scores - largest) V
//
// A mask of -inf is exp(-inf) = 0. If all keys are masked, the total stays 0 and the row becomes 0 / 0, as by softmax.
// With a causal mask, rows of queries skip the keys that none of them sees, unless a key or value is no finite number:
// then all are multiplied, and it spreads as it does by the operators.
#pragma once

#include "activations.h"
#include "memory.h"
#include "rows.h"
#include "tile.h"

namespace {

constexpr int kQueries = 4 * kRows1;  // rows that are computed together
constexpr int kKeys = 512;            // of a block, at most
constexpr int kRowsOfTask = 512, kFewestRows = 256, kEnoughTasks = 16;
// Keys whose weights are written: whole registers, and what a step of the loop over them reads.
constexpr int kStep = Dot::kElements * kUnroll > kLanes ? Dot::kElements * kUnroll : kLanes;
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
  float *scores, *sums, *largest, *total;
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
    total = pieces.take<float>(rows_of_task);
    bytes = pieces.bytes();
  }
};

FFN_INLINE void pack_keys(const Plan& plan, const float* key, long stride, int count, int size) {
  for (long first = 0; first < up_to_multiple(count, kPanel); first += kLanes) {
    for (int i = 0; i < kLanes; i++) {
      const bool there = first + i < count;
      Dot::convert(there ? key + (first + i) * stride : key, there ? size : 0, plan.staged + i * plan.row_stride,
                   plan.units);
    }
    int32_t* panel = plan.k + first / kPanel * kPanel * plan.deep + first % kPanel;
    for (long unit = 0; unit < plan.deep; unit += kLanes)
      transpose(plan.staged + unit, plan.row_stride, panel + unit * kPanel, kPanel);
  }
}

FFN_INLINE void pack_values(const Plan& plan, const float* value, long stride, int count, int size) {
  const long units = units_of(count);
  for (int column = 0; column < plan.panels * kPanel; column += kLanes) {
    const int left = size - column, some = left < kLanes ? left : kLanes;
    int32_t* to = plan.v + column / kPanel * kPanel * units + column % kPanel;
    for (long unit = 0; unit < units; unit++, to += kPanel) {
      Float rows[Dot::kElements];
      for (int i = 0; i < Dot::kElements; i++) {
        const long row = unit * Dot::kElements + i;
        rows[i] = splat(0.0f);
        if (row < count && some > 0) rows[i] = load_part(value + row * stride + column, some);
      }
      store(reinterpret_cast<float*>(to), Dot::units_of(rows));
    }
  }
}

FFN_INLINE bool all_finite(const float* from, long stride, int rows, int size) {
  Float zero_or_nan = splat(0.0f);
  for (int row = 0; row < rows; row++) {
    over_row(size, [&](int k, int count) __attribute__((always_inline)) {
      zero_or_nan = fma(load_part(from + row * stride + k, count), splat(0.0f), zero_or_nan);
    });
  }
  return sum_of_lanes(zero_or_nan) == 0;
}

// A product of a few rows with panels, which is written as rows of float32 or added to them.
FFN_INLINE void multiply_rows(const int32_t* a, long stride, int rows, const int32_t* panels, long count, long next,
                              long units, bool first, float* to, long to_stride) {
  const int down = (rows + kRows1 - 1) / kRows1;
  Tiles tiles;
  for (long panel = 0; panel < count; panel++) {
    for (int i = 0; i < down; i++) {
      const int from = rows * i / down, some = rows * (i + 1) / down - from;
      tiles.shape(some, 1);
      multiply_all(pick<1, kRows1>(some), {a + from * stride, stride, panels + panel * next, next, units}, some, 1,
                   first, to + from * to_stride + panel * kPanel, to_stride);
    }
  }
}

// The first `count` scores of a row, scaled and with the bias, -inf added from `seen` on, and -inf after them up to a
// whole register. Returns the largest.
FFN_INLINE float masked(float* scores, long count, long seen, float scale, const float* bias, long bias_stride) {
  Float largest = splat(-kInfinity);
  for (long key = 0; key < count; key += kLanes) {
    const int some = static_cast<int>(least(count - key, kLanes));
    Float x = mul(load(scores + key), splat(scale));
    if (bias) {
      const Float b = bias_stride ? load_part(bias + key, some) : splat(*bias);
      x = add(x, b);
    }
    if (key + some > seen)
      x = add(x, first_lanes(seen > key ? static_cast<int>(seen - key) : 0, splat(0.0f), splat(-kInfinity)));
    if (some < kLanes) x = first_lanes(some, x, splat(-kInfinity));
    store(scores + key, x);
    largest = larger(largest, x);
  }
  return largest_of_lanes(largest);
}

// exp(x) of a difference to a largest score. From -88 on it is 0, since 2^-127 is.
FFN_INLINE Float share_of(Float x) {
  if constexpr (Dot::kElements == 1) return Exponential(x, -88.0f).value();
  // As 2^n 2^r with |r| <= 1/2, with an error of 7.5e-5, which is little beside the rounding to bfloat16.
  const Float t = mul(at_least(-88.0f, x), splat(1.44269504f)), n = round_to_integer(t), r = sub(t, n);
  Float p = splat(0.05517166f);
  p = fma(p, r, splat(0.24261116f));
  p = fma(p, r, splat(0.69326099f));
  p = fma(p, r, splat(0.99992807f));
  return mul(power_of_two(n), p);
}

// Writes exp(scores - largest) as units, zero from `count` on up to `multiplied`. Returns the sum.
FFN_INLINE float weigh(const float* scores, long count, long multiplied, float largest, int32_t* weights) {
  Float total = splat(0.0f);
  for (long key = 0; key < multiplied; key += kLanes) {
    Float e = splat(0.0f);
    if (key < count) e = share_of(sub(load(scores + key), splat(largest)));
    total = add(total, e);
    Dot::store_units(weights + key / Dot::kElements, e);
  }
  return sum_of_lanes(total);
}

FFN_INLINE float exponential(float x) {
  alignas(64) float lanes[kLanes];
  store(lanes, share_of(splat(x)));
  return lanes[0];
}

int attention_tasks(const ffn::Attention& a) { return static_cast<int>(Plan(a, nullptr).chunks) * a.batch * a.groups; }

size_t attention_scratch(const ffn::Attention& a) { return Plan(a, nullptr).bytes; }

// The rows of a task, and one block of keys after the other.
struct Task {
  const ffn::Attention& a;
  const Plan plan;
  long batch, group, first, rows;

  FFN_INLINE Task(const ffn::Attention& attention, int task, char* memory) : a(attention), plan(attention, memory) {
    const long chunk = task % plan.chunks, head = task / plan.chunks;
    batch = head / a.groups;
    group = head % a.groups;
    first = plan.rows * chunk / plan.chunks;
    rows = plan.rows * (chunk + 1) / plan.chunks - first;
  }

  FFN_INLINE long head_of(long row) const { return group * (a.heads / a.groups) + (first + row) / a.queries; }
  FFN_INLINE long query_of(long row) const { return (first + row) % a.queries; }
  FFN_INLINE float* sums_of(long row) const { return plan.sums + row * plan.sum_stride; }

  // A block of keys, from `key` on. With `skip`, rows multiply no more keys than they see.
  struct Keys {
    long key;
    int count;
    bool skip;
  };

  FFN_INLINE Keys pack(long block) const {
    const long key = block * plan.keys, row = batch * a.keys + key;
    const int count = static_cast<int>(least(plan.keys, a.keys - key));
    const float* k = a.key + row * a.key_stride + group * a.size;
    const float* v = a.value + row * a.value_stride + group * a.size;
    pack_keys(plan, k, a.key_stride, count, a.size);
    pack_values(plan, v, a.value_stride, count, a.size);
    const bool skip =
        a.causal && all_finite(k, a.key_stride, count, a.size) && all_finite(v, a.value_stride, count, a.size);
    return {key, count, skip};
  }

  // Of a block of keys.
  FFN_INLINE long seen_by(long row, const Keys& keys) const {
    const long seen = a.causal ? query_of(row) + 1 - keys.key : keys.count;
    return seen < 0 ? 0 : least(seen, keys.count);
  }

  FFN_INLINE void softmax(long row, const Keys& keys, float* scores, long multiplied, int32_t* weights) const {
    const long seen = seen_by(row, keys), read = keys.skip ? seen : keys.count;
    const float* bias = a.bias ? a.bias + batch * a.bias_batch + head_of(row) * a.bias_head +
                                     query_of(row) * a.bias_query + keys.key * a.bias_key
                               : nullptr;
    const float here = masked(scores, read, seen, a.scale, bias, a.bias_key);
    const float before = keys.key ? plan.largest[row] : -kInfinity;
    const float largest = here > before ? here : before, finite = largest == -kInfinity ? 0 : largest;
    const float sum = weigh(scores, read, multiplied, finite, weights);
    plan.largest[row] = largest;
    if (keys.key == 0) {
      plan.total[row] = sum;
      return;
    }
    const float less = exponential(before - finite);
    plan.total[row] = plan.total[row] * less + sum;
    for (float* sums = sums_of(row); sums < sums_of(row + 1); sums += kLanes) store(sums, mul(load(sums), splat(less)));
  }

  // Rows `begin` .. `begin + count - 1` with a block of keys.
  FFN_INLINE void add_keys(long begin, int count, const Keys& keys) const {
    long most = keys.skip ? 0 : keys.count;
    for (long row = begin; keys.skip && row < begin + count; row++)
      if (seen_by(row, keys) > most) most = seen_by(row, keys);
    if (most == 0) return;

    for (int i = 0; i < count; i++) {
      const long row = begin + i;
      const float* query = a.query + (batch * a.queries + query_of(row)) * a.query_stride + head_of(row) * a.size;
      Dot::convert(query, a.size, plan.q + i * plan.row_stride, plan.units);
    }
    multiply_rows(plan.q, plan.row_stride, count, plan.k, (most + kPanel - 1) / kPanel, plan.deep * kPanel, plan.units,
                  true, plan.scores, plan.score_stride);
    for (int i = 0; i < count; i++)
      softmax(begin + i, keys, plan.scores + i * plan.score_stride, up_to_multiple(most, kStep),
              plan.weights + i * plan.weight_stride);
    multiply_rows(plan.weights, plan.weight_stride, count, plan.v, plan.panels, units_of(keys.count) * kPanel,
                  units_of(most), keys.key == 0, sums_of(begin), plan.sum_stride);
  }

  FFN_INLINE void write(long row) const {
    float* to = a.to + ((batch * a.queries + query_of(row)) * a.heads + head_of(row)) * a.size;
    const Float share = splat(1.0f / plan.total[row]);
    over_row(a.size, [&](int k, int count) __attribute__((always_inline)) {
      store_part(to + k, mul(load(sums_of(row) + k), share), count);
    });
  }
};

void attend(const ffn::Attention& a, int index, void* memory) {
  const Task task(a, index, static_cast<char*>(memory));
  const long parts = (task.rows + kQueries - 1) / kQueries;
  for (long block = 0; block < task.plan.blocks; block++) {
    const Task::Keys keys = task.pack(block);
    for (long part = 0; part < parts; part++) {
      const long begin = task.rows * part / parts;
      task.add_keys(begin, static_cast<int>(task.rows * (part + 1) / parts - begin), keys);
    }
  }
  for (long row = 0; row < task.rows; row++) task.write(row);
}

constexpr ffn::AttentionKernels attention_kernels(const char* name) {
  return {name, &attention_tasks, &attention_scratch, &attend};
}

}  // namespace
