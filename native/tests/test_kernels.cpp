// Every kernel that this machine runs, against the reference: all tails, activations, threads, and values that are no
// numbers. Kernels whose instructions this machine lacks are named, not passed over in silence.
#include <cstdlib>
#include <limits>
#include <memory>
#include <numeric>

#include "check.h"
#include "dispatch.h"
#include "guarded.h"
#include "hosts.h"
#include "reference.h"

namespace {

using namespace test;

struct Path {
  const ffn::Kernels* kernels;
  double bound;  // of the error against the reference with operands rounded in the same way
};

std::string named(const Path& path, int d, int f, int o, int tokens, const char* what) {
  return std::string(path.kernels->name) + ": " + what + ", " + std::to_string(d) + " x " + std::to_string(f) + " x " +
         std::to_string(o) + ", " + std::to_string(tokens) + " tokens";
}

struct Guard : Guarded {
  explicit Guard(const std::vector<float>& values) : Guarded(values.size()) {
    std::copy(values.begin(), values.end(), data());
  }
};

void run(const ffn::Projections& projections, const float* x, float* y, long tokens, const ffn::Parallel& host) {
  projections.run(x, nullptr, &y, tokens, host);
}

void compare(const Path& path, const Drawn& drawn, int tokens, const char* what, bool residual = false) {
  const int d = drawn.spec.w1.rows, f = drawn.spec.w1.columns, o = drawn.spec.w2.columns;
  const std::vector<float> values = drawn_input(tokens * d), added = residual ? drawn_input(tokens * o) : Floats();
  Guard x(values), r(added);
  Guarded y(static_cast<size_t>(tokens * o));
  float* result = y.data();
  const ffn::Projections feed_forward(*path.kernels, drawn.spec);
  feed_forward.run(x.data(), residual ? r.data() : nullptr, &result, tokens, OneThread());
  const Values wanted =
      test::feed_forward(drawn.spec, Values(values.begin(), values.end()), added, tokens, path.kernels->format);
  const double error = relative_l2(y.data(), wanted);
  check(error <= path.bound, named(path, d, f, o, tokens, what) + ": error " + std::to_string(error * 1e6) + "e-6");
}

// Norms of any width, before and behind, with and without what is optional.
void norms(const Path& path) {
  for (auto place : {ffn::NormPlace::kPre, ffn::NormPlace::kPost})
    for (bool rms : {false, true})
      for (bool residual : {false, true})
        for (int width : {7, 16, 40, 130})
          for (int tokens : {1, 15, 130}) {
            Drawn drawn(Activation::kGelu, 1, width, 72, width, rms, true);
            drawn.give_norm(place, rms, !rms && residual);
            compare(path, drawn, tokens, "norm", residual);
          }
}

// Rows of several results, beside each other.
Floats joined(float* const* results, const std::vector<int>& splits, int tokens) {
  Floats rows;
  for (int i = 0; i < tokens; i++)
    for (size_t j = 0; j < splits.size(); j++)
      rows.insert(rows.end(), results[j] + i * splits[j], results[j] + (i + 1) * splits[j]);
  return rows;
}

// One product: with a residual and a norm, or cut into results of any width.
void linear(const Path& path) {
  for (int tokens : {1, 5, 14, 130}) {
    for (const std::vector<int>& splits : {std::vector<int>{40}, {16, 16, 16}, {1, 33, 64, 7}}) {
      const bool whole = splits.size() == 1;
      const int d = 50, o = std::accumulate(splits.begin(), splits.end(), 0);
      Drawn drawn(Activation::kIdentity, 1, d, o, 1, false, true);
      drawn.give_norm(whole ? ffn::NormPlace::kPost : ffn::NormPlace::kPre, false, true, whole ? o : d);
      if (tokens % 2) drawn.give_smoothing();
      ffn::LinearSpec spec{drawn.spec.w1, drawn.spec.b1, splits, drawn.spec.norm_place, drawn.spec.norm};
      const std::vector<float> values = drawn_input(tokens * d), added = whole ? drawn_input(tokens * o) : Floats();
      Guard x(values), r(added);
      std::vector<std::unique_ptr<Guarded>> y;
      std::vector<float*> results;
      for (int columns : splits) {
        y.push_back(std::make_unique<Guarded>(static_cast<size_t>(tokens * columns)));
        results.push_back(y.back()->data());
      }
      const ffn::Projections projections(*path.kernels, spec);
      projections.run(x.data(), whole ? r.data() : nullptr, results.data(), tokens, Threads(3));
      const Values wanted =
          test::linear(spec, Values(values.begin(), values.end()), added, tokens, path.kernels->format);
      const double error = relative_l2(joined(results.data(), splits, tokens).data(), wanted);
      check(error <= path.bound,
            named(path, d, 0, o, tokens, "linear") + ": error " + std::to_string(error * 1e6) + "e-6");
    }
  }
}

// Rows whose mean is far from zero are as accurate as two passes are, and of a constant row nothing is left.
void norm_far_from_zero(const Path& path) {
  for (int width : {5, 64, 257, 768, 1023}) {
    Floats x = drawn_input(width), ones(x.size(), 1), y(x.size());
    for (float& v : x) v += 1000;
    path.kernels->norm({false, 1e-12f, width, ones.data(), nullptr}, x.data(), y.data());
    Values wanted(x.begin(), x.end());
    normalise({false, 1e-12f, width, ones.data(), nullptr}, wanted.data());
    check(relative_l2(y.data(), wanted) < 1e-4, "a norm of a row far from zero");
    for (float each : {0.1f, 0.7f, -3e7f}) {
      std::fill(x.begin(), x.end(), each);
      path.kernels->norm({false, 1e-12f, width, ones.data(), ones.data()}, x.data(), y.data());
      check(std::all_of(y.begin(), y.end(), [](float v) { return v == 1; }), "of a constant row");
    }
    std::fill(x.begin(), x.end(), 1e30f);  // its squares overflow
    for (float& v : x) v *= static_cast<float>(&v - x.data() + 1);
    path.kernels->norm({false, 1e-12f, width, ones.data(), ones.data()}, x.data(), y.data());
    check(std::all_of(y.begin(), y.end(), [](float v) { return v == 1; }), "of a row of huge numbers");
  }
}

void tails(const Path& path) {
  const int block = path.kernels->format.block;
  for (int tokens : {1, 2, 3, 4, 6, 7, 8, 13, 14, 15, 16, 17, 29, 33, 57, 113, 130, block + 1})
    compare(path, Drawn(Activation::kGelu, 1, 40, 72, 48, false, true), tokens, "tokens");
  for (int width : {1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 65, 129, 257}) {
    compare(path, Drawn(Activation::kGelu, 1, width, 32, 32, false, true), 9, "width of the input");
    compare(path, Drawn(Activation::kSwish, 1, 32, width, 32, true, true), 9, "width of the hidden layer");
    compare(path, Drawn(Activation::kSigmoid, 1, 32, width, 32, false, false), 3, "hidden layer, few tokens");
    compare(path, Drawn(Activation::kRelu, 1, 32, 32, width, false, true), 9, "width of the output");
    compare(path, Drawn(Activation::kRelu, 1, 32, 32, width, false, true), 1, "output of one token");
    compare(path, Drawn(Activation::kGelu, 1, width, width, width, true, true, true), 5, "transposed");
  }
}

// Rows and columns of one to several groups, whose values differ by a factor of a hundred.
void groups(const Path& path) {
  for (int width : {255, 256, 260, 516, 1030}) {
    Drawn drawn(Activation::kGelu, 1, width, 2 * width, 24, false, true);
    for (size_t i = 0; i < drawn.w1.size(); i += 300) drawn.w1[i] *= 100;
    compare(path, drawn, 15, "width of groups");
    compare(path, drawn, 1, "width of groups, one token");
  }
}

// Factors are of their rows, also in the second group, behind a norm and in results that a linear is cut into.
void smoothing(const Path& path) {
  for (int width : {3, 31, 64, 300}) {
    for (bool gated : {false, true}) {
      Drawn drawn(Activation::kGelu, 1, width, 2 * width, 24, gated, true);
      drawn.give_smoothing();
      compare(path, drawn, 15, "smoothing");
      drawn.give_norm(ffn::NormPlace::kPre, true, false);
      compare(path, drawn, 2, "smoothing behind a norm");
    }
  }
}

// An input of a few large channels: their factors halve the error and more, in 8 bits. Others take no notice.
void smoothing_of_large_channels(const Path& path) {
  const int tokens = 9;
  Drawn drawn(Activation::kIdentity, 1, 192, 64, 64, false, false);
  std::vector<float> x = drawn_input(tokens * 192), factors(192, 1);
  for (size_t i = 0; i < x.size(); i++)
    if (i % 192 % 48 == 0) x[i] *= 50;
  for (size_t k = 0; k < factors.size(); k += 48) factors[k] = 7;
  for (size_t i = 0; i < drawn.w1.size(); i++)
    if (i / 64 % 48 == 0) drawn.w1[i] /= 50;
  const Values wanted = test::feed_forward(drawn.spec, Values(x.begin(), x.end()), {}, tokens, ffn::Format{});
  const auto error = [&] {
    std::vector<float> y(static_cast<size_t>(tokens * 64));
    run(ffn::Projections(*path.kernels, drawn.spec), x.data(), y.data(), tokens, OneThread());
    return relative_l2(y.data(), wanted);
  };
  const double plain = error();
  drawn.spec.w1.smoothing = factors.data();
  const double smoothed = error();
  const bool integers = path.kernels->format.precision == Precision::kInt8;
  check(integers ? smoothed < plain / 2 : smoothed == plain,
        named(path, 192, 64, 64, tokens, "large channels") + ": error " + std::to_string(plain * 1e6) +
            "e-6, smoothed " + std::to_string(smoothed * 1e6) + "e-6");
}

// The largest integers of both sides, of one sign and of both: their sums are exact, in 16 bits, too.
void largest_products(const Path& path) {
  const int d = 300, tokens = 3;
  for (int negative : {0, 1, 2, 3}) {
    Drawn drawn(Activation::kIdentity, 1, d, 8, 8, false, false);
    for (size_t i = 0; i < drawn.w1.size(); i++) drawn.w1[i] = negative && i / 8 % negative == 0 ? -1.0f : 1.0f;
    std::fill(drawn.w2.begin(), drawn.w2.end(), 0.0f);
    for (size_t i = 0; i < 8; i++) drawn.w2[9 * i] = 1;
    const std::vector<float> x(static_cast<size_t>(tokens * d), 1);
    std::vector<float> y(tokens * 8);
    run(ffn::Projections(*path.kernels, drawn.spec), x.data(), y.data(), tokens, OneThread());
    double wanted = 0;
    for (int k = 0; k < d; k++) wanted += drawn.w1[static_cast<size_t>(8 * k)];
    check(std::all_of(y.begin(), y.end(), [&](float v) { return std::fabs(v - wanted) <= 1e-3 * std::fabs(wanted); }),
          named(path, d, 8, 8, tokens, "the largest integers") + ": " + std::to_string(y[0]) + " is not " +
              std::to_string(wanted));
  }
}

void activations(const Path& path) {
  for (int i = 0; i <= static_cast<int>(Activation::kSoftsign); i++) {
    const auto activation = static_cast<Activation>(i);
    for (bool gated : {false, true})
      compare(path, Drawn(activation, 0.7, 64, 96, 64, gated, true), 16, ("activation " + std::to_string(i)).c_str());
  }
}

// One input, one hidden unit and one output of weight one: the activation itself.
ffn::FeedForwardSpec alone(Activation activation) {
  static const float one = 1;
  ffn::FeedForwardSpec spec;
  spec.activation = activation;
  spec.alpha = 1.702f;
  spec.w1 = spec.w2 = {&one, 1, 1, 1, 1};
  return spec;
}

// Of the error of an activation alone. Its row of one number is rounded to bfloat16, and a square doubles that; as
// 8-bit integer it is the largest. Weights of one have no error.
double bound_alone(const Path& path, double of_integers) {
  const ffn::Format& format = path.kernels->format;
  if (format.precision == Precision::kInt8) return of_integers;
  return format.precision == Precision::kBfloat16 && format.words == 1 ? 1.2e-2 : 4e-7;
}

void activation_alone(const Path& path) {
  const int count = 4001;
  for (int i = 0; i <= static_cast<int>(Activation::kSoftsign); i++) {
    const ffn::FeedForwardSpec spec = alone(static_cast<Activation>(i));
    std::vector<float> x(count), y(count);
    for (int j = 0; j < count; j++) x[static_cast<size_t>(j)] = static_cast<float>(j - count / 2) * 0.02f;
    run(ffn::Projections(*path.kernels, spec), x.data(), y.data(), count, OneThread());
    double worst = 0;
    for (size_t j = 0; j < x.size(); j++) {
      const double wanted = activate(spec.activation, spec.alpha, x[j]);
      worst = std::max(worst, std::fabs(y[j] - wanted) / std::max({1.0, std::fabs(wanted), std::fabs(1.0 * x[j])}));
    }
    check(worst < bound_alone(path, 1e-4), std::string(path.kernels->name) + ": activation " + std::to_string(i) +
                                               " alone: error " + std::to_string(worst * 1e9) + "e-9");
  }
}

// At sizes of any power of ten, the left tails go to zero and nothing overflows on the way.
void activation_of_huge_values(const Path& path) {
  for (int i = 0; i <= static_cast<int>(Activation::kSoftsign); i++) {
    const ffn::FeedForwardSpec spec = alone(static_cast<Activation>(i));
    const ffn::Projections feed_forward(*path.kernels, spec);
    for (int power = 2; power <= 38; power++) {
      for (float sign : {1.0f, -1.0f}) {
        const float x = sign * std::pow(10.0f, static_cast<float>(power));
        const double wanted = activate(spec.activation, spec.alpha, x);
        float y;
        run(feed_forward, &x, &y, 1, OneThread());
        if (std::fabs(wanted) > std::numeric_limits<float>::max()) continue;
        check(std::fabs(y - wanted) <= bound_alone(path, 1e-6) * std::max(1.0, std::fabs(wanted)),
              std::string(path.kernels->name) + ": activation " + std::to_string(i) + " of " + std::to_string(x));
      }
    }
  }
}

// Rows at the edges of float32 have finite results in 8-bit integers, as in the others.
void rows_of_any_size(const Path& path) {
  const Drawn drawn(Activation::kTanh, 1, 40, 50, 20, false, true);
  const ffn::Projections feed_forward(*path.kernels, drawn.spec);
  for (float size : {1e-45f, 1e-39f, 1e-37f, 1e30f, 1.8e38f}) {
    std::vector<float> x(40), y(20);
    for (size_t i = 0; i < x.size(); i++) x[i] = i % 2 ? size : -size;
    run(feed_forward, x.data(), y.data(), 1, OneThread());
    check(std::all_of(y.begin(), y.end(), [](float v) { return std::isfinite(v); }),
          named(path, 40, 50, 20, 1, "a row of any size"));
  }
}

// Anywhere in a row: also where its sums are several, or where it is cut into groups.
void no_numbers(const Path& path, int width) {
  const Drawn drawn(Activation::kRelu, 1, width, 50, 20, false, true);
  const ffn::Projections feed_forward(*path.kernels, drawn.spec);
  for (float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (int place = 0; place < width; place += 13) {
      std::vector<float> x = drawn_input(3 * width), y(3 * 20);
      x[static_cast<size_t>(width + place)] = bad;
      run(feed_forward, x.data(), y.data(), 3, OneThread());
      bool others = true, all = true;
      for (int i = 0; i < 20; i++) {
        others = others && std::isfinite(y[static_cast<size_t>(i)]) && std::isfinite(y[static_cast<size_t>(40 + i)]);
        all = all && !std::isfinite(y[static_cast<size_t>(20 + i)]);
      }
      check(all, named(path, width, 50, 20, 3, "what is no number stays none"));
      check(others, named(path, width, 50, 20, 3, "other tokens are not touched"));
    }
  }
}

void zeros(const Path& path) {
  const Drawn drawn(Activation::kGelu, 1, 40, 50, 20, false, false);
  std::vector<float> x(2 * 40), y(2 * 20, 1);
  run(ffn::Projections(*path.kernels, drawn.spec), x.data(), y.data(), 2, OneThread());
  check(std::all_of(y.begin(), y.end(), [](float v) { return v == 0; }), named(path, 40, 50, 20, 2, "zero stays zero"));
  run(ffn::Projections(*path.kernels, drawn.spec), nullptr, nullptr, 0, OneThread());  // no token: nothing is read
}

void order_and_threads(const Path& path) {
  const Drawn drawn(Activation::kSwish, 1, 48, 80, 40, true, true);
  const ffn::Projections feed_forward(*path.kernels, drawn.spec);
  for (int tokens : {1, 5, 40, 2 * path.kernels->format.block + 20}) {
    const std::vector<float> x = drawn_input(tokens * 48);
    std::vector<float> wanted(static_cast<size_t>(tokens * 40)), y(wanted);
    run(feed_forward, x.data(), wanted.data(), tokens, OneThread());
    run(feed_forward, x.data(), y.data(), tokens, Backwards());
    check(y == wanted, named(path, 48, 80, 40, tokens, "the order of tasks does not matter"));
    run(feed_forward, x.data(), y.data(), tokens, Threads(4));
    check(y == wanted, named(path, 48, 80, 40, tokens, "four threads give the same bits"));
  }

  const std::vector<float> x = drawn_input(20 * 48);
  std::vector<float> wanted(20 * 40);
  run(feed_forward, x.data(), wanted.data(), 20, OneThread());
  std::atomic<int> differ{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 16; i++) {
    callers.emplace_back([&] {
      std::vector<float> y(20 * 40);
      for (int round = 0; round < 5; round++) {
        run(feed_forward, x.data(), y.data(), 20, Threads(2));
        differ += y != wanted;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  check(differ == 0, named(path, 48, 80, 40, 20, "sixteen callers at once"));
}

// Sums of long rows: as accurate as sums that are split are, and not as one running sum is.
void long_rows(const Path& path) {
  const Drawn drawn(Activation::kGelu, 1, 768, 3072, 32, false, true);
  const int tokens = 15;
  const std::vector<float> x = drawn_input(tokens * 768);
  std::vector<float> y(static_cast<size_t>(tokens * 32));
  run(ffn::Projections(*path.kernels, drawn.spec), x.data(), y.data(), tokens, OneThread());
  const Values wanted = test::feed_forward(drawn.spec, Values(x.begin(), x.end()), {}, tokens, ffn::Format{});
  const double error = relative_l2(y.data(), wanted);
  const double bounds[] = {3.5e-7, 8e-3, 3.5e-2};
  check(error <= bounds[static_cast<int>(path.kernels->format.precision)],
        named(path, 768, 3072, 32, tokens, "long rows") + ": error " + std::to_string(error * 1e9) + "e-9");
  std::printf("%s: relative L2 %.2e with 768 x 3072\n", path.kernels->name, error);
}

// Products of so many units of K that they are computed in stretches; a small group of K is left over.
void deep(const Path& path) {
  const int elements = path.kernels->format.elements, k = 3200 * elements + 8, units = k / elements;
  check(path.kernels->stretch(30, units) < units, "a deep product has stretches");
  check(path.kernels->stretch(1, units) == units, "but not of one token");
  for (int tokens : {1, 9, 30}) {
    compare(path, Drawn(Activation::kGelu, 1, k, 40, 16, false, true), tokens, "deep input");
    compare(path, Drawn(Activation::kSwish, 1, k, 40, 16, true, true), tokens, "deep input, gated");
    compare(path, Drawn(Activation::kRelu, 1, 16, k, 40, false, true), tokens, "deep hidden layer", true);
    const Drawn drawn(Activation::kIdentity, 1, k, 47, 1, false, true);
    const ffn::LinearSpec spec{drawn.spec.w1, drawn.spec.b1, {40, 7}, {}, {}};
    const std::vector<float> values = drawn_input(tokens * k);
    Guarded first(static_cast<size_t>(tokens * 40)), second(static_cast<size_t>(tokens * 7));
    float* results[] = {first.data(), second.data()};
    ffn::Projections(*path.kernels, spec).run(values.data(), nullptr, results, tokens, Threads(3));
    const Values wanted = test::linear(spec, Values(values.begin(), values.end()), {}, tokens, path.kernels->format);
    check(relative_l2(joined(results, {40, 7}, tokens).data(), wanted) <= path.bound,
          named(path, k, 0, 47, tokens, "deep, two results"));
  }
}

// A product of packed weights with rows of A, of which parts are computed.
struct Rows {
  const ffn::Kernels& kernels;
  const ffn::Weights& weights;
  std::vector<int32_t> units;
  std::vector<ffn::RowScale> scales;
  ffn::Product product{};

  Rows(const ffn::Kernels& of, const ffn::Weights& w, int tokens)
      : kernels(of), weights(w), scales(static_cast<size_t>(tokens * w.groups) + 1) {
    const std::vector<float> x = drawn_input(tokens * w.rows);
    const long stride = w.units * of.format.words + 16;
    units.resize(static_cast<size_t>(tokens * stride));
    for (int i = 0; i < tokens; i++) {
      of.convert(x.data() + i * w.rows, nullptr, w.rows, units.data() + i * stride, w.units,
                 scales.data() + i * w.groups);
    }
    product.a = units.data(), product.a_stride = stride, product.scales = scales.data(), product.tokens = tokens;
    product.weights = &weights, product.activation = ffn::Activation::kGelu, product.to_stride = w.columns;
  }

  // In phases of some panels and units of K.
  Floats run(int panels, long stretch, float* sums) {
    Floats y(static_cast<size_t>(product.tokens * weights.columns));
    ffn::Product p = product;
    p.to = y.data(), p.sums = sums;
    for (p.first_panel = 0; p.first_panel < weights.panels; p.first_panel = p.end_panel) {
      p.end_panel = std::min(p.first_panel + panels, weights.panels);
      for (p.first_unit = 0; p.first_unit < weights.units; p.first_unit = p.end_unit) {
        p.end_unit = std::min(p.first_unit + stretch, weights.units);
        for (int task = 0; task < kernels.tasks(p); task++) kernels.run(p, task);
      }
    }
    return y;
  }
};

// Whether sums wait between two stretches changes no bit, but where the registers add up all of K.
bool same(const Path& path, const Floats& a, const Floats& b) {
  if (path.kernels != &ffn::kBfloat16Avx512) return a == b;
  return relative_l2(a.data(), Values(b.begin(), b.end())) < 1e-6;
}

// A part of a product is what all of it has there: panels from any on, and sums of stretches one after the other.
void parts_of_a_product(const Path& path) {
  const ffn::Format& format = path.kernels->format;
  const int k = 300 * format.elements, n = 300;
  const Drawn drawn(Activation::kGelu, 1, k, n, 1, false, true);
  const ffn::Weights weights = ffn::pack(format, drawn.spec.w1, drawn.spec.b1, {}, nullptr);
  for (int tokens : {1, 2, 3, 6, 9, 20, 40}) {
    Rows rows(*path.kernels, weights, tokens);
    std::vector<float> sums(static_cast<size_t>(tokens * weights.panels * format.panel), NAN);
    check(same(path, rows.run(6, 128, sums.data()), rows.run(weights.panels, weights.units, nullptr)),
          named(path, k, 0, n, tokens, "parts of a product"));
  }
}

// A deep product of more panels than a phase takes is what it is without phases, in any order of its tasks. What is
// tested is in no kernel, so one precision does.
void many_panels(const Path& path) {
  const ffn::Format& format = path.kernels->format;
  if (format.precision != ffn::Precision::kFloat32) return;
  const int tokens = 60, k = 3200, n = (1 << 17) / tokens + 40;
  const Drawn drawn(Activation::kGelu, 1, k, n, 1, false, true);
  const ffn::LinearSpec spec{drawn.spec.w1, drawn.spec.b1, {n}, {}, {}};
  const ffn::Weights weights = ffn::pack(format, drawn.spec.w1, drawn.spec.b1, {}, nullptr);
  Rows rows(*path.kernels, weights, tokens);
  rows.product.activation = ffn::Activation::kIdentity;
  const Floats wanted = rows.run(weights.panels, weights.units, nullptr);
  const Floats x = drawn_input(tokens * k);
  Guarded y(wanted.size());
  run(ffn::Projections(*path.kernels, spec), x.data(), y.data(), tokens, Backwards());
  check(same(path, Floats(y.data(), y.data() + wanted.size()), wanted), named(path, k, 0, n, tokens, "many panels"));
}

void masks() {
  const auto all = ffn::instruction_sets(nullptr), none = ffn::instruction_sets(""),
             odd = ffn::instruction_sets("sse9");
  check(!none.avx2 && !none.avx512 && !odd.avx2 && !odd.bf16, "an empty or unknown mask allows nothing");
  for (auto precision : {Precision::kFloat32, Precision::kBfloat16, Precision::kInt8})
    check(ffn::choose(precision, none) == nullptr, "nothing is chosen where nothing is allowed");
  const auto narrow = ffn::instruction_sets("avx2");
  check(narrow.avx2 == all.avx2 && !narrow.avx512 && !narrow.bf16 && !narrow.vnni, "a mask allows what it names");
#if defined(__x86_64__)
  check(!narrow.avx2 || ffn::choose(Precision::kInt8, narrow) == &ffn::kInt8Avx2, "8-bit integers do without VNNI");
  check(!narrow.avx2 || ffn::choose(Precision::kBfloat16, narrow) == &ffn::kBfloat16WeightsAvx2,
        "bfloat16 does without its instructions");
  ffn::InstructionSets slow;
  slow.avx2 = slow.avx512 = slow.bf16 = true;
  check(ffn::choose(Precision::kBfloat16, slow) == &ffn::kBfloat16WeightsAvx512, "and where these are slow");
  slow.fast_bf16 = true;
  check(ffn::choose(Precision::kBfloat16, slow) == &ffn::kBfloat16Avx512, "and takes them where they are fast");
  ffn::InstructionSets integers;
  integers.avx2 = integers.avx_vnni = true;
  check(ffn::choose(Precision::kInt8, integers) == &ffn::kInt8AvxVnni, "8-bit integers take AVX-VNNI");
  integers.avx512 = integers.vnni = true;
  check(ffn::choose(Precision::kInt8, integers) == &ffn::kInt8Avx512, "and rather that of AVX-512");
#endif
  check(!ffn::instruction_sets("bf16,vnni").bf16, "BF16 is used on top of AVX-512 only");
  check(!ffn::instruction_sets("avx_vnni").avx_vnni, "AVX-VNNI is used on top of AVX2 only");
  check(!ffn::instruction_sets("avx512,bf16,amx").amx, "AMX is used on top of BF16 and VNNI only");
}

}  // namespace

int main() {
  masks();
#if defined(__x86_64__)
  const ffn::InstructionSets sets = ffn::instruction_sets(std::getenv(ffn::kAllowedVariable));
  struct {
    const ffn::Kernels* kernels;
    bool runs;
    double bound;
  } const paths[] = {{&ffn::kFloat32Avx2, sets.avx2, 6e-7},
                     {&ffn::kFloat32Avx512, sets.avx512, 6e-7},
                     {&ffn::kBfloat16WeightsAvx2, sets.avx2, 1e-6},
                     {&ffn::kBfloat16WeightsAvx512, sets.avx512, 1e-6},
                     {&ffn::kBfloat16Avx512, sets.bf16, 2e-3},
                     {&ffn::kBfloat16Amx, sets.amx, 2e-3},
                     {&ffn::kInt8Avx2, sets.avx2, 6e-3},
                     {&ffn::kInt8AvxVnni, sets.avx_vnni, 6e-3},
                     {&ffn::kInt8Avx512, sets.vnni, 6e-3},
                     {&ffn::kInt8Amx, sets.amx, 6e-3}};
  for (const auto& each : paths) {
    if (!each.runs) {
      std::printf("not run here: %s\n", each.kernels->name);
      continue;
    }
    const Path path{each.kernels, each.bound};
    tails(path);
    groups(path);
    smoothing(path);
    smoothing_of_large_channels(path);
    norms(path);
    linear(path);
    norm_far_from_zero(path);
    largest_products(path);
    activations(path);
    activation_alone(path);
    activation_of_huge_values(path);
    rows_of_any_size(path);
    for (int width : {40, 300}) no_numbers(path, width);
    zeros(path);
    order_and_threads(path);
    long_rows(path);
    deep(path);
    parts_of_a_product(path);
    many_panels(path);
  }
#endif
  return report();
}
