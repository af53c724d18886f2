// Attention by every kernel that this machine runs, against softmax in float64: shapes, masks, long rows, and values
// that are no numbers.
#include <cstdlib>
#include <limits>

#include "attention.h"
#include "check.h"
#include "dispatch.h"
#include "guarded.h"
#include "hosts.h"
#include "reference.h"

namespace {

using namespace test;

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

struct Path {
  const ffn::AttentionKernels* kernels;
  double bound;
};

// Packed queries, keys and values, and perhaps a bias, each of which ends where memory ends.
struct Case {
  ffn::Attention a{};
  std::unique_ptr<Guarded> q, k, v, bias, y;
  size_t size;

  Case(int batch, int heads, int groups, int queries, int keys, int width, bool causal = false) {
    a.batch = batch, a.heads = heads, a.groups = groups, a.queries = queries, a.keys = keys, a.size = width;
    a.query_stride = heads * width, a.key_stride = a.value_stride = groups * width;
    a.scale = static_cast<float>(1 / std::sqrt(width)), a.causal = causal;
    a.query = drawn(q, batch * queries * heads * width);
    a.key = drawn(k, batch * keys * groups * width);
    a.value = drawn(v, batch * keys * groups * width);
    size = static_cast<size_t>(batch * queries * heads * width);
    y = std::make_unique<Guarded>(size);
    a.to = y->data();
  }
  // Over which axes the bias runs.
  void give_bias(bool batch, bool head, bool query, bool key) {
    const int n[] = {batch ? a.batch : 1, head ? a.heads : 1, query ? a.queries : 1, key ? a.keys : 1};
    a.bias = drawn(bias, n[0] * n[1] * n[2] * n[3]);
    a.bias_batch = batch ? n[1] * n[2] * n[3] : 0, a.bias_head = head ? n[2] * n[3] : 0;
    a.bias_query = query ? n[3] : 0, a.bias_key = key;
  }
  std::string name() const {
    std::string words;
    for (int each : {a.batch, a.heads, a.groups, a.queries, a.keys, a.size}) words += std::to_string(each) + " ";
    return words + (a.causal ? "causal" : a.bias ? "with bias" : "");
  }

 private:
  static float* drawn(std::unique_ptr<Guarded>& to, int count) {
    to = std::make_unique<Guarded>(static_cast<size_t>(count));
    const Floats values = drawn_input(count);
    std::copy(values.begin(), values.end(), to->data());
    return to->data();
  }
};

Values wanted(const ffn::Attention& a) {
  Values y(static_cast<size_t>(a.batch * a.queries * a.heads * a.size));
  Values p(static_cast<size_t>(a.keys));
  for (int b = 0; b < a.batch; b++) {
    for (int h = 0; h < a.heads; h++) {
      const long shared = h / (a.heads / a.groups) * a.size;
      for (int i = 0; i < a.queries; i++) {
        const float* q = a.query + (b * a.queries + i) * a.query_stride + h * a.size;
        double largest = -kInfinity, total = 0;
        for (int j = 0; j < a.keys; j++) {
          const float* k = a.key + (b * a.keys + j) * a.key_stride + shared;
          double score = 0;
          for (int c = 0; c < a.size; c++) score += static_cast<double>(q[c]) * k[c];
          score *= a.scale;
          if (a.bias) score += a.bias[b * a.bias_batch + h * a.bias_head + i * a.bias_query + j * a.bias_key];
          if (a.causal && j > i) score += -kInfinity;
          p[static_cast<size_t>(j)] = score;
          largest = std::max(largest, score);
        }
        for (double& each : p) total += each = std::exp(each - largest);
        for (int c = 0; c < a.size; c++) {
          double sum = 0;
          for (int j = 0; j < a.keys; j++)
            sum += p[static_cast<size_t>(j)] / total * a.value[(b * a.keys + j) * a.value_stride + shared + c];
          y[static_cast<size_t>(((b * a.queries + i) * a.heads + h) * a.size + c)] = sum;
        }
      }
    }
  }
  return y;
}

void compare(const Path& path, const Case& each) {
  ffn::attend(*path.kernels, each.a, OneThread());
  const double error = relative_l2(each.a.to, wanted(each.a));
  check(error <= path.bound,
        std::string(path.kernels->name) + ": " + each.name() + ": error " + std::to_string(error * 1e6) + "e-6");
}

void shapes(const Path& path) {
  for (int width : {1, 2, 3, 7, 8, 16, 17, 24, 32, 33, 40, 64, 80, 128, 130})
    for (int queries : {9, 30}) compare(path, {1, 2, 2, queries, 21, width});
  for (int length : {1, 2, 3, 5, 8, 13, 14, 15, 16, 17, 31, 33, 57, 65, 128, 130})
    for (bool causal : {false, true}) compare(path, {1, 3, 3, length, length, 16, causal});
  compare(path, {3, 2, 2, 5, 11, 8});
  compare(path, {2, 6, 2, 19, 19, 24});
  compare(path, {1, 8, 1, 1, 70, 32});
  compare(path, {2, 6, 3, 40, 40, 16, true});
}

// More keys than a block holds, and more rows than a task.
void long_rows(const Path& path) {
  compare(path, {1, 1, 1, 7, 513, 16});
  compare(path, {1, 1, 1, 3, 1700, 8});
  compare(path, {1, 1, 1, 29, 1700, 8});
  compare(path, {1, 1, 1, 1100, 1100, 8, true});
  compare(path, {1, 4, 1, 300, 300, 8, true});
  for (float step : {0.02f, -0.02f}) {  // the largest score is in the last block, or in the first
    Case rising(1, 1, 1, 30, 1600, 8);
    rising.give_bias(false, false, false, true);
    for (int i = 0; i < 1600; i++) rising.bias->data()[i] = step * static_cast<float>(i);
    compare(path, rising);
  }
}

void biases(const Path& path) {
  for (int axes = 0; axes < 16; axes++) {
    Case each(2, 4, 2, 16, 21, 16);
    each.give_bias(axes & 1, axes & 2, axes & 4, axes & 8);
    compare(path, each);
  }
}

// Keys that a mask of -inf hides have no weight at all, also where whole blocks are hidden.
void masks(const Path& path) {
  for (int hidden : {1, 20, 512, 1000, 1090}) {
    Case each(1, 2, 2, 30, 1100, 8);
    each.give_bias(false, false, false, true);
    for (int i = 0; i < hidden; i++) {
      each.bias->data()[i] = -kInfinity;
      each.v->data()[i * 16] = 3e38f;
    }
    compare(path, each);
  }
  for (int queries : {5, 30}) {
    Case all(1, 2, 2, queries, 600, 8);
    all.give_bias(false, false, true, true);
    for (int i = 0; i < 600; i++) all.bias->data()[2 * 600 + i] = -kInfinity;
    ffn::attend(*path.kernels, all.a, OneThread());
    for (int i = 0; i < queries * 16; i++)
      check((i / 16 == 2) == std::isnan(all.a.to[i]), "a row without a key is no number, and no other");
    // A mask of the lowest number hides nothing where it hides all.
    for (int i = 0; i < 600; i++) all.bias->data()[2 * 600 + i] = std::numeric_limits<float>::lowest();
    compare(path, all);
  }
}

// A large key or value costs the others no digits, and a large weight costs none of those in other blocks of keys.
void large(const Path& path) {
  for (float size : {1e3f, 1e9f, 1e20f}) {
    for (int which : {0, 1}) {
      Case each(1, 2, 2, 30, 300, 8);
      each.give_bias(false, false, false, true);
      for (int c = 0; c < 16; c++) (which ? each.k : each.v)->data()[7 * 16 + c] *= size;
      each.bias->data()[7] = -kInfinity;
      compare(path, each);
    }
  }
  for (int keys : {29, 60}) {  // where one is a large part of all
    for (int which : {0, 1}) {
      Case each(1, 1, 1, 30, keys, 2);
      each.give_bias(false, false, false, true);
      for (int c = 0; c < 2; c++) (which ? each.k : each.v)->data()[(keys - 1) * 2 + c] *= 1e4f;
      each.bias->data()[keys - 1] = -kInfinity;
      compare(path, each);
    }
  }
  Case one(1, 1, 1, 30, 5120, 8);
  one.give_bias(false, false, false, true);
  std::fill_n(one.bias->data(), 5120, 0.0f);
  one.bias->data()[0] = 14;
  std::fill_n(one.q->data(), 30 * 8, 0.0f);
  for (int i = 0; i < 5120 * 8; i++) one.v->data()[i] = i < 8 ? 0 : std::fabs(one.v->data()[i]);
  compare({path.kernels, path.bound < 1e-3 ? path.bound : 0.11}, one);  // the tenth of its block is lost
}

// Keys of the first block count as much as those of the last.
void blocks_weigh_alike(const Path& path) {
  const int keys = 16384;
  Case each(1, 1, 1, 30, keys, 8);
  std::fill_n(each.q->data(), 30 * 8, 0.0f);
  for (int i = 0; i < keys * 8; i++) each.v->data()[i] = i < keys * 4 ? 1.0f : -1.0f;
  ffn::attend(*path.kernels, each.a, OneThread());
  for (int i = 0; i < 30 * 8; i++)
    check(std::fabs(each.a.to[i]) < 1e-6,
          std::string(path.kernels->name) + ": a mean of 0 is " + std::to_string(each.a.to[i] * 1e6) + "e-6");
}

// What is no number spreads as it does by softmax and a product.
void no_numbers(const Path& path) {
  for (float bad : {kNan, kInfinity}) {
    for (bool causal : {false, true}) {
      for (int place : {0, 3, 8, 9 + 3}) {
        for (int which : {0, 1, 2}) {
          const int length = place < 9 ? 9 : 40;
          Case each(1, 1, 1, length, length, 8, causal);
          (which == 0 ? each.q : which == 1 ? each.k : each.v)->data()[place * 8 + 2] = bad;
          ffn::attend(*path.kernels, each.a, OneThread());
          const Values y = wanted(each.a);
          bool same = true;
          for (size_t i = 0; i < each.size; i++)
            same = same && std::isfinite(y[i]) == std::isfinite(each.a.to[i]) &&
                   std::isnan(y[i]) == std::isnan(each.a.to[i]);
          check(same, std::string(path.kernels->name) + ": " + std::to_string(bad) + " in " + std::to_string(which) +
                          " at " + std::to_string(place) + each.name());
        }
      }
    }
  }
}

// So does a bias that is no number, also that of a later key which no query sees, and beside hidden keys alone.
void no_numbers_in_the_bias(const Path& path) {
  for (float bad : {kNan, kInfinity}) {
    for (int queries : {9, 40}) {
      Case each(1, 2, 2, queries, queries, 8, true);
      each.give_bias(false, false, true, true);
      each.bias->data()[2 * queries + 1] = -kInfinity;
      each.bias->data()[3 * queries + 6] = bad;
      ffn::attend(*path.kernels, each.a, OneThread());
      for (int i = 0; i < queries * 16; i++)
        check((i / 16 == 3) == std::isnan(each.a.to[i]), "a bias that is no number spreads over its row alone");
    }
  }
  Case hidden(1, 1, 1, 30, 1100, 8);
  hidden.give_bias(false, false, true, true);
  std::fill_n(hidden.bias->data() + 2 * 1100, 900, -kInfinity);
  hidden.bias->data()[2 * 1100 + 5] = kNan;
  ffn::attend(*path.kernels, hidden.a, OneThread());
  for (int i = 0; i < 30 * 8; i++)
    check((i / 8 == 2) == std::isnan(hidden.a.to[i]), "NaN beside hidden keys spreads over its row alone");
}

void order_and_threads(const Path& path) {
  for (int length : {5, 300, 700}) {
    Case one(2, 4, 2, length, length, 16, true), other(2, 4, 2, length, length, 16, true);
    ffn::attend(*path.kernels, one.a, OneThread());
    const Backwards backwards;
    const Threads threads(4);
    for (const ffn::Parallel* host : std::initializer_list<const ffn::Parallel*>{&backwards, &threads}) {
      ffn::attend(*path.kernels, other.a, *host);
      check(std::equal(one.a.to, one.a.to + one.size, other.a.to),
            "any order of tasks, and threads, give the same bits");
    }
  }
}

void nothing(const Path& path) {
  Case no_key(1, 2, 2, 3, 0, 8);
  std::fill(no_key.a.to, no_key.a.to + no_key.size, 1.0f);
  ffn::attend(*path.kernels, no_key.a, OneThread());
  check(std::all_of(no_key.a.to, no_key.a.to + no_key.size, [](float v) { return v == 0; }), "no key: an empty sum");
  ffn::attend(*path.kernels, Case(1, 2, 2, 0, 5, 8).a, OneThread());
  ffn::attend(*path.kernels, Case(0, 2, 2, 3, 5, 8).a, OneThread());
}

}  // namespace

int main() {
#if defined(__x86_64__)
  const ffn::InstructionSets sets = ffn::instruction_sets(std::getenv(ffn::kAllowedVariable));
  struct {
    const ffn::AttentionKernels* kernels;
    bool runs;
    double bound;
  } const paths[] = {
      {&ffn::kAttentionFloat32Avx2, sets.avx2, 1e-6},      {&ffn::kAttentionFloat32Avx512, sets.avx512, 1e-6},
      {&ffn::kAttentionBfloat16Avx512, sets.bf16, 1.2e-2}, {&ffn::kAttentionBfloat16Amx, sets.amx, 1.2e-2},
      {&ffn::kAttentionInt16Avx2, sets.avx2, 1.2e-2},      {&ffn::kAttentionInt16AvxVnni, sets.avx_vnni, 1.2e-2},
      {&ffn::kAttentionInt16Avx512, sets.vnni, 1.2e-2}};
  for (const auto& each : paths) {
    if (!each.runs) {
      std::printf("not run here: %s\n", each.kernels->name);
      continue;
    }
    const Path path{each.kernels, each.bound};
    shapes(path);
    long_rows(path);
    biases(path);
    masks(path);
    large(path);
    blocks_weigh_alike(path);
    no_numbers(path);
    no_numbers_in_the_bias(path);
    order_and_threads(path);
    nothing(path);
  }
  check(!sets.avx2 ||
            ffn::choose_attention(Precision::kBfloat16, ffn::instruction_sets("avx2")) == &ffn::kAttentionFloat32Avx2,
        "attention is in float32 where bfloat16 has no instructions");
  const auto integers = ffn::choose_attention(Precision::kInt8, ffn::instruction_sets("avx512,vnni,avx_vnni"));
  check(!sets.vnni || integers == &ffn::kAttentionInt16Avx512, "attention of 8-bit integers without fast bfloat16");
  const auto narrow = ffn::choose_attention(Precision::kInt8, ffn::instruction_sets("avx2"));
  check(!sets.avx2 || narrow == &ffn::kAttentionInt16Avx2, "and without VNNI");
#endif
  return report();
}
