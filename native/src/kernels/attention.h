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
// Integers have no digits for exponentials far below 1. So they take all three to the largest score of a block, if it
// is not too far below that of the blocks before: many small weights beside a large one then count in all other blocks.
//
// A mask of -inf is exp(-inf) = 0. If all keys are masked, the total stays 0 and the row becomes 0 / 0, as by softmax.
// With a causal mask, rows of queries skip the keys that none of them sees, unless a key, a value or the bias of a
// later key is no finite number: then all are multiplied, and it spreads as it does by the operators.
#pragma once

#include "attention_operands.h"
#include "softmax.h"

namespace {

// A product of a few rows with panels, which is written as rows of float32 or added to them.
FFN_INLINE void multiply_rows(const int32_t* a, long stride, int rows, const int32_t* panels, long count, long next,
                              long units, bool first, float* to, long to_stride) {
  const int down = (rows + kRows1 - 1) / kRows1;
  Tiles tiles;
  for (long panel = 0; panel < count; panel++) {
    for (int i = 0; i < down; i++) {
      const int from = rows * i / down, some = rows * (i + 1) / down - from;
      tiles.shape(some, 1);
      multiply_all(pick<1, kRows1>(some), {a + from * stride, stride, panels + panel * next, next, units}, first,
                   to + from * to_stride + panel * kPanel, to_stride);
    }
  }
}

// What integers leave to float32.
constexpr const ffn::AttentionKernels& kInFloat32 =
    kLanes == 16 ? ffn::kAttentionFloat32Avx512 : ffn::kAttentionFloat32Avx2;

int attention_tasks(const ffn::Attention& a) { return static_cast<int>(Plan(a, nullptr).chunks) * a.batch * a.groups; }

size_t attention_scratch(const ffn::Attention& a) {
  const size_t bytes = Plan(a, nullptr).bytes, of_float32 = kScaled ? kInFloat32.scratch(a) : 0;
  return bytes > of_float32 ? bytes : of_float32;
}

// The rows of a task, and one block of keys after the other.
struct Task {
  const ffn::Attention& a;
  const Plan plan;
  long batch, group, first, rows;
  float key_scale = 1, key_inverse = 1;

  FFN_INLINE Task(const ffn::Attention& attention, int task, char* memory) : a(attention), plan(attention, memory) {
    const long chunk = task % plan.chunks, head = task / plan.chunks;
    batch = head / a.groups;
    group = head % a.groups;
    first = plan.rows * chunk / plan.chunks;
    rows = plan.rows * (chunk + 1) / plan.chunks - first;
  }

  // Integers: the scales of keys and values. False where they do not stand for these well.
  template <class D = Dot>
  FFN_INLINE bool measure() {
    if constexpr (kScaled) {
      const long row = batch * a.keys, column = group * a.size;
      const Float inverse = splat(1 / static_cast<float>(a.keys)), least = splat(kLeastMagnitude);
      Float most = least, sum = splat(0.0f), over = splat(-kInfinity);
      over_columns(a.key + row * a.key_stride + column, a.key_stride, a.keys, a.size,
                   [&](int, Float its_most, Float its_sum) __attribute__((always_inline)) {
                     most = D::larger_magnitude(most, its_most);
                     sum = add(sum, its_sum);
                   });
      const float of_keys = D::largest_of_lanes(most);
      const float root = sum_of_lanes(sum) / static_cast<float>(a.keys) / static_cast<float>(a.size);
      for (long k = 0; k < plan.sum_stride; k += kLanes) store(plan.value_scales + k, least);
      over_columns(a.value + row * a.value_stride + column, a.value_stride, a.keys, a.size,
                   [&](int k, Float its_most, Float its_sum) __attribute__((always_inline)) {
                     const Float its_root = mul(its_sum, inverse);
                     over = larger(over, fnma(mul(its_root, its_root), splat(kMostOverOthers), its_most));
                     its_most = D::larger_magnitude(least, its_most);
                     most = D::larger_magnitude(most, its_most);
                     store(plan.value_scales + k, mul(its_most, splat(1 / D::kMostValue)));
                   });
      if (!(D::largest_of_lanes(most) <= kMostMagnitude)) return false;
      if (of_keys > kLeastMagnitude && of_keys > kMostOverOthers * root * root) return false;
      if (largest_of_lanes(over) > 0) return false;
      key_scale = of_keys / D::kMost;
      key_inverse = D::kMost / of_keys;
    }
    return true;
  }

  FFN_INLINE long head_of(long row) const { return group * (a.heads / a.groups) + (first + row) / a.queries; }
  FFN_INLINE long query_of(long row) const { return (first + row) % a.queries; }
  FFN_INLINE const float* query_at(long row) const {
    return a.query + (batch * a.queries + query_of(row)) * a.query_stride + head_of(row) * a.size;
  }
  FFN_INLINE float* result_at(long row) const {
    return a.to + ((batch * a.queries + query_of(row)) * a.heads + head_of(row)) * a.size;
  }
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
    pack_keys(plan, k, a.key_stride, count, a.size, key_inverse);
    pack_values(plan, v, a.value_stride, count, a.size);
    Keys keys{key, count, a.causal};
    if (!kScaled && keys.skip)
      keys.skip = all_finite(k, a.key_stride, count, a.size) && all_finite(v, a.value_stride, count, a.size);
    for (long each = 0; keys.skip && a.bias && a.bias_key && each < rows; each++) {
      const int seen = static_cast<int>(seen_by(each, keys));
      keys.skip = all_addable_to_hidden(bias_of(each, keys) + seen, count - seen);
    }
    return keys;
  }

  // Of the first key of a block; null where there is none.
  FFN_INLINE const float* bias_of(long row, const Keys& keys) const {
    if (!a.bias) return nullptr;
    return a.bias + batch * a.bias_batch + head_of(row) * a.bias_head + query_of(row) * a.bias_query +
           keys.key * a.bias_key;
  }

  // Of a block of keys.
  FFN_INLINE long seen_by(long row, const Keys& keys) const {
    const long seen = a.causal ? query_of(row) + 1 - keys.key : keys.count;
    return seen < 0 ? 0 : least(seen, keys.count);
  }

  FFN_INLINE void softmax(long row, const Keys& keys, float scale, float* scores, long multiplied,
                          int32_t* weights) const {
    const long seen = seen_by(row, keys), read = keys.skip ? seen : keys.count;
    const float here = masked(scores, read, seen, scale, bias_of(row, keys), a.bias_key);
    const float largest = keys.key && !(here > plan.largest[row]) ? plan.largest[row] : here;
    const float before = keys.key ? plan.base[row] : -kInfinity;
    const float base = here > largest - kReach ? here : largest - kReach, finite = base == -kInfinity ? 0 : base;
    float sum = weigh(scores, read, multiplied, finite, weights);
    if (base == -kInfinity) sum *= 0;  // it is 0 but for exponentials that round to no weight, or is NaN
    plan.largest[row] = largest;
    plan.base[row] = base;
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
      if (row + kAhead < rows) fetch_to_read(query_at(row + kAhead), a.size);
      plan.query_scales[i] = convert_query(query_at(row), a.size, plan.q + i * plan.row_stride, plan.units);
    }
    multiply_rows(plan.q, plan.row_stride, count, plan.k, (most + kPanel - 1) / kPanel, plan.deep * kPanel, plan.units,
                  true, plan.scores, plan.score_stride);
    for (int i = 0; i < count; i++)
      softmax(begin + i, keys, a.scale * key_scale * plan.query_scales[i], plan.scores + i * plan.score_stride,
              up_to_multiple(most, kStep), plan.weights + i * plan.weight_stride);
    multiply_rows(plan.weights, plan.weight_stride, count, plan.v, plan.panels, units_of(keys.count) * kPanel,
                  units_of(most), keys.key == 0, sums_of(begin), plan.sum_stride);
  }

  FFN_INLINE void write(long row) const {
    float* to = result_at(row);
    const Float share = splat(1.0f / plan.total[row]);
    over_row(a.size, [&](int k, int count) __attribute__((always_inline)) {
      Float sums = mul(load(sums_of(row) + k), share);
      if (kScaled) sums = mul(sums, load(plan.value_scales + k));
      store_part(to + k, sums, count);
    });
  }
};

void attend(const ffn::Attention& a, int index, void* memory) {
  Task task(a, index, static_cast<char*>(memory));
  if (kScaled && (task.rows < kFewestScaled || !task.measure())) return kInFloat32.run(a, index, memory);
  const long parts = (task.rows + kQueries - 1) / kQueries;
  for (long block = 0; block < task.plan.blocks; block++) {
    const Task::Keys keys = task.pack(block);
    for (long part = 0; part < parts; part++) {
      const long begin = task.rows * part / parts, end = task.rows * (part + 1) / parts;
      task.add_keys(begin, static_cast<int>(end - begin), keys);
      for (long row = begin; block + 1 == task.plan.blocks && row < end; row++) {
        if (row + kAhead < task.rows) fetch_to_write(task.result_at(row + kAhead), 4 * a.size);
        task.write(row);
      }
    }
  }
}

constexpr ffn::AttentionKernels attention_kernels(const char* name) {
  return {name, &attention_tasks, &attention_scratch, &attend};
}

}  // namespace
