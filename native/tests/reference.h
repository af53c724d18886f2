// A feed-forward in float64, in the words of docs/functions.md, and the same with operands rounded as a precision does.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "projections.h"

namespace test {

using ffn::Activation;
using ffn::Precision;

inline double activate(Activation activation, double alpha, double x) {
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  switch (activation) {
    case Activation::kIdentity: return x;
    case Activation::kRelu: return std::max(x, 0.0);
    case Activation::kRelu2: return std::max(x, 0.0) * std::max(x, 0.0);
    case Activation::kGelu: return x * 0.5 * std::erfc(-x / std::sqrt(2.0));
    case Activation::kGeluTanh: return x * sigmoid(2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
    case Activation::kSwish: return x * sigmoid(alpha * x);
    case Activation::kMish: return x * std::tanh(std::log1p(std::exp(x)));
    case Activation::kHardSwish: return x * std::clamp(x / 6 + 0.5, 0.0, 1.0);
    case Activation::kTanh: return std::tanh(x);
    case Activation::kSigmoid: return sigmoid(x);
    case Activation::kElu: return x > 0 ? x : alpha * std::expm1(x);
    case Activation::kLeakyRelu: return x > 0 ? x : alpha * x;
    case Activation::kSoftplus: return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x)));
    case Activation::kSoftsign: return x / (1 + std::fabs(x));
  }
  return NAN;
}

using Values = std::vector<double>;
using Floats = std::vector<float>;

inline double rounded_to_bfloat16(double x) {
  const uint32_t bits = static_cast<uint32_t>(ffn::to_bfloat16(static_cast<float>(x))) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// Elements that share a scale; all of them in float32 and bfloat16, which have none.
inline int group_of(const ffn::Format& format) {
  return format.precision == Precision::kInt8 ? static_cast<int>(format.group) * format.elements : 1 << 30;
}

inline double smoothing_of(const ffn::Format& format, const ffn::Matrix& m, int k) {
  return m.smoothing && format.precision == Precision::kInt8 ? m.smoothing[k] : 1;
}

// A row as its 8-bit integers stand for it: unsigned with a zero point, and zero in the range of each group. It will be
// multiplied by a matrix, whose smoothing divides it.
inline void round_row(const ffn::Format& format, double* x, const ffn::Matrix& m) {
  const int n = m.rows;
  if (format.precision == Precision::kBfloat16 && format.words == 1) std::transform(x, x + n, x, rounded_to_bfloat16);
  if (format.precision != Precision::kInt8) return;
  for (int k = 0; k < n; k++) x[k] *= static_cast<double>(1.0f / static_cast<float>(smoothing_of(format, m, k)));
  for (int left = n, group = group_of(format); left > 0; left -= group, x += group) {
    double* end = x + std::min(left, group);
    const double low = std::min(0.0, *std::min_element(x, end)), high = std::max(0.0, *std::max_element(x, end));
    const double scale = high > low ? (high - low) / 255 : 1, zero = std::nearbyint(-low / scale);
    std::transform(x, end, x, [=](double each) {
      return scale * (std::clamp(std::nearbyint(each / scale) + zero, 0.0, 255.0) - zero);
    });
  }
}

inline Values rounded_weights(const ffn::Format& format, const ffn::Matrix& m) {
  Values w(static_cast<size_t>(m.rows) * static_cast<size_t>(m.columns));
  for (int n = 0; n < m.columns; n++) {
    double scale = 1;
    for (int k = 0, group = group_of(format); k < m.rows; k++) {
      if (k % group == 0) {
        double least = 0;
        const auto value = [&](int i) { return m.at(i, n) * smoothing_of(format, m, i); };
        for (int i = k; i < m.rows && i - k < group; i++) {
          least = std::max(least, std::fabs(value(i)) / 127);
          if (format.pairs_in_16_bits && (i - k) % 2) least = std::max(least, std::fabs(value(i - 1) + value(i)) / 126);
        }
        scale = least > 0 ? least : 1;
      }
      const double x = m.at(k, n) * smoothing_of(format, m, k);
      w[static_cast<size_t>(k * m.columns + n)] = format.precision == Precision::kInt8
                                                      ? scale * std::nearbyint(x / scale)
                                                  : format.precision == Precision::kBfloat16 ? rounded_to_bfloat16(x)
                                                                                             : x;
    }
  }
  return w;
}

inline Values product(const Values& x, int rows, const ffn::Matrix& m, const float* bias, const ffn::Format& format) {
  const Values w = rounded_weights(format, m);
  Values y(static_cast<size_t>(rows) * static_cast<size_t>(m.columns));
  for (int i = 0; i < rows; i++) {
    for (int n = 0; n < m.columns; n++) {
      double sum = 0;
      for (int k = 0; k < m.rows; k++)
        sum += x[static_cast<size_t>(i * m.rows + k)] * w[static_cast<size_t>(k * m.columns + n)];
      y[static_cast<size_t>(i * m.columns + n)] = sum + (bias ? bias[n] : 0);
    }
  }
  return y;
}

inline void normalise(const ffn::Norm& norm, double* x) {
  double mean = 0, squares = 0;
  for (int i = 0; i < norm.width && !norm.rms; i++) mean += x[i] / norm.width;
  for (int i = 0; i < norm.width; i++) squares += (x[i] - mean) * (x[i] - mean) / norm.width;
  for (int i = 0; i < norm.width; i++)
    x[i] = (x[i] - mean) / std::sqrt(squares + norm.epsilon) * norm.scale[i] + (norm.bias ? norm.bias[i] : 0);
}

// What stands around the products: `products` of normed rows, plus a residual, normed.
template <class Spec, class Products>
Values surrounded(const Spec& spec, Values x, int columns, const Floats& residual, int tokens,
                  const Products& products) {
  for (int i = 0; i < tokens && spec.norm_place == ffn::NormPlace::kPre; i++)
    normalise(spec.norm, x.data() + i * columns);
  Values y = products(std::move(x));
  for (size_t i = 0; i < residual.size(); i++) y[i] += residual[i];
  for (int i = 0; i < tokens && spec.norm_place == ffn::NormPlace::kPost; i++)
    normalise(spec.norm, y.data() + i * spec.norm.width);
  return y;
}

inline Values linear(const ffn::LinearSpec& spec, Values x, const Floats& residual, int tokens,
                     const ffn::Format& format) {
  return surrounded(spec, std::move(x), spec.w.rows, residual, tokens, [&](Values normed) {
    for (int i = 0; i < tokens; i++) round_row(format, normed.data() + i * spec.w.rows, spec.w);
    return product(normed, tokens, spec.w, spec.b, format);
  });
}

inline Values feed_forward(const ffn::FeedForwardSpec& spec, Values x, int tokens, const ffn::Format& format) {
  for (int i = 0; i < tokens; i++) round_row(format, x.data() + i * spec.w1.rows, spec.w1);
  Values hidden = product(x, tokens, spec.w1, spec.b1, format);
  for (double& h : hidden) h = activate(spec.activation, spec.alpha, h);
  if (spec.w3) {
    const Values factor = product(x, tokens, spec.w3, spec.b3, format);
    for (size_t i = 0; i < hidden.size(); i++) hidden[i] *= factor[i];
  }
  for (int i = 0; i < tokens; i++) round_row(format, hidden.data() + i * spec.w2.rows, spec.w2);
  return product(hidden, tokens, spec.w2, spec.b2, format);
}

inline Values feed_forward(const ffn::FeedForwardSpec& spec, Values x, const Floats& residual, int tokens,
                           const ffn::Format& format) {
  return surrounded(spec, std::move(x), spec.w1.rows, residual, tokens,
                    [&](Values normed) { return feed_forward(spec, std::move(normed), tokens, format); });
}

inline double relative_l2(const float* got, const Values& wanted) {
  double error = 0, size = 0;
  for (size_t i = 0; i < wanted.size(); i++) {
    error += (got[i] - wanted[i]) * (got[i] - wanted[i]);
    size += wanted[i] * wanted[i];
  }
  return std::sqrt(error / std::max(size, 1e-300));
}

// Weights of a feed-forward, drawn and kept.
struct Drawn {
  std::vector<float> w1, w2, w3, b1, b2, b3, norm_scale, norm_bias, smoothing, hidden_smoothing;
  ffn::FeedForwardSpec spec;

  Drawn(Activation activation, double alpha, int d, int f, int o, bool gated, bool biases, bool transposed = false) {
    std::mt19937 generator(static_cast<unsigned>(d * 31 + f * 7 + o + gated));
    const auto draw = [&](int count, double scale) {
      std::normal_distribution<float> normal(0, static_cast<float>(scale));
      std::vector<float> values(static_cast<size_t>(count));
      for (float& v : values) v = normal(generator);
      return values;
    };
    const auto matrix = [&](const std::vector<float>& w, int k, int n) {
      return transposed ? ffn::Matrix{w.data(), k, n, 1, k} : ffn::Matrix{w.data(), k, n, n, 1};
    };
    w1 = draw(d * f, 1 / std::sqrt(d)), w2 = draw(f * o, 1 / std::sqrt(f));
    if (gated) w3 = draw(d * f, 1 / std::sqrt(d));
    if (biases) b1 = draw(f, 0.1), b2 = draw(o, 0.1), b3 = draw(gated ? f : 0, 0.1);
    spec.activation = activation;
    spec.alpha = static_cast<float>(alpha);
    spec.w1 = matrix(w1, d, f), spec.w2 = matrix(w2, f, o);
    if (gated) spec.w3 = matrix(w3, d, f);
    if (biases) spec.b1 = b1.data(), spec.b2 = b2.data(), spec.b3 = gated ? b3.data() : nullptr;
  }

  // Factors from 1/8 to 8.
  void give_smoothing() {
    for (int k = 0; k < spec.w1.rows; k++) smoothing.push_back(std::exp2(static_cast<float>(k % 13) / 2 - 3));
    for (int k = 0; k < spec.w2.rows; k++) hidden_smoothing.push_back(std::exp2(static_cast<float>(k % 11) / 2 - 2));
    spec.w1.smoothing = smoothing.data();
    if (spec.w3) spec.w3.smoothing = smoothing.data();
    spec.w2.smoothing = hidden_smoothing.data();
  }

  void give_norm(ffn::NormPlace place, bool rms, bool bias, int width = 0) {
    if (!width) width = place == ffn::NormPlace::kPre ? spec.w1.rows : spec.w2.columns;
    for (int i = 0; i < width; i++) {
      norm_scale.push_back(1 + 0.1f * static_cast<float>(i % 7));
      norm_bias.push_back(0.1f * static_cast<float>(i % 5));
    }
    spec.norm_place = place;
    spec.norm = {rms, 1e-5f, width, norm_scale.data(), bias ? norm_bias.data() : nullptr};
  }
};

inline std::vector<float> drawn_input(int count) {
  std::mt19937 generator(static_cast<unsigned>(count));
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<size_t>(count));
  for (float& v : x) v = normal(generator);
  return x;
}

}  // namespace test
