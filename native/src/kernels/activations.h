// The activations of docs/functions.md on vectors, within a few units in the last place of float32, or of the largest
// value near by: the left tail of gelu, below 1e-5, has fewer digits.
//
// Where the result is rounded to bfloat16 or 8 bits, gelu has fewer digits, too: GeluOfOperands.
//
// They share one exponential, which ends at exp(88) and exp(-87). NaN stays NaN. Where a formula would subtract two
// near values, it is written so that nothing cancels: elu by exp(x) - 1 as a whole, tanh by a rational function, mish
// without the logarithm.
//
// The exponential, tanh and erf are the approximations of Cephes and Eigen.
#pragma once

#include <type_traits>

#include "kernels.h"

namespace {

using ffn::Activation;

// exp(x) = 2^n e^r with |r| <= ln 2 / 2; `less_one` is e^r - 1.
struct Exponential {
  Float power, less_one;
  FFN_INLINE explicit Exponential(Float x, float low = -87.0f) {
    x = at_least(low, at_most(88.0f, x));
    const Float n = round_to_integer(mul(x, splat(1.44269504f)));
    Float r = fnma(n, splat(0.693145752f), x);  // ln 2 in two parts
    r = fnma(n, splat(1.42860677e-6f), r);
    Float p = splat(1.9875691500e-4f);
    p = fma(p, r, splat(1.3981999507e-3f));
    p = fma(p, r, splat(8.3334519073e-3f));
    p = fma(p, r, splat(4.1665795894e-2f));
    p = fma(p, r, splat(1.6666665459e-1f));
    p = fma(p, r, splat(5.0000001201e-1f));
    less_one = fma(p, mul(r, r), r);
    power = power_of_two(n);
  }
  FFN_INLINE Float value() const { return fma(power, less_one, power); }
  FFN_INLINE Float value_less_one() const { return fma(power, less_one, sub(power, splat(1.0f))); }
};

FFN_INLINE Float negative(Float x) { return sub(splat(0.0f), x); }
// y, or 0 x where `beyond` is positive: the exponential no longer falls there. 0 x is NaN for an infinity.
FFN_INLINE Float faded(Float x, Float beyond, Float y) { return where_positive(beyond, mul(x, splat(0.0f)), y); }

FFN_INLINE Float x_over_one_plus_exp(Float x, Float u) {  // x sigmoid(-u)
  return faded(x, sub(u, splat(88.0f)), div(x, add(splat(1.0f), Exponential(u).value())));
}

struct Identity {
  FFN_INLINE Float operator()(Float x) const { return x; }
};

struct Relu {
  FFN_INLINE Float operator()(Float x) const { return at_least(0.0f, x); }
};

struct Relu2 {
  FFN_INLINE Float operator()(Float x) const {
    const Float y = at_least(0.0f, x);
    return mul(y, y);
  }
};

// x / 2 (1 + erf(x / sqrt 2)).
struct Gelu {
  FFN_INLINE Float operator()(Float x) const {
    const Float z = at_least(-4.0f, at_most(4.0f, mul(x, splat(0.70710678118f))));
    const Float s = mul(z, z);
    Float p = splat(-2.72614225801306e-10f);
    p = fma(p, s, splat(2.77068142495902e-08f));
    p = fma(p, s, splat(-2.10102402082508e-06f));
    p = fma(p, s, splat(-5.69250639462346e-05f));
    p = fma(p, s, splat(-7.34990630326855e-04f));
    p = fma(p, s, splat(-2.95459980854025e-03f));
    p = fma(p, s, splat(-1.60960333262415e-02f));
    Float q = splat(-1.45660718464996e-05f);
    q = fma(q, s, splat(-2.13374055278905e-04f));
    q = fma(q, s, splat(-1.68282697438203e-03f));
    q = fma(q, s, splat(-7.37332916720468e-03f));
    q = fma(q, s, splat(-1.42647390514189e-02f));
    const Float erf = div(mul(z, p), q), half = mul(x, splat(0.5f));
    return fma(half, erf, half);
  }
};

// The same within 4e-5, for operands of fewer digits: a polynomial in place of the quotient, which takes half the time.
// Of those that are 1 at the end it has the least largest error of x / 2 erf(x / sqrt 2), and float32 gives 1 exactly
// there, so that the left tail goes to zero.
struct GeluOfOperands {
  FFN_INLINE Float operator()(Float x) const {
    constexpr float kEnd = 4.39999437f;
    const Float z = at_least(-kEnd, at_most(kEnd, x)), s = mul(z, z);
    Float p = splat(7.13884507e-11f);
    p = fma(p, s, splat(-7.5080866e-09f));
    p = fma(p, s, splat(3.48169067e-07f));
    p = fma(p, s, splat(-9.44972908e-06f));
    p = fma(p, s, splat(0.000168585946f));
    p = fma(p, s, splat(-0.0021099844f));
    p = fma(p, s, splat(0.0192860551f));
    p = fma(p, s, splat(-0.132152855f));
    p = fma(p, s, splat(0.797523201f));
    const Float half = mul(x, splat(0.5f));
    return fma(half, mul(z, p), half);
  }
};

// x / 2 (1 + tanh(u)) = x sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3).
struct GeluTanh {
  FFN_INLINE Float operator()(Float x) const {
    const Float slope = fma(mul(x, x), splat(0.044715f * 1.5957691216f), splat(1.5957691216f));
    return x_over_one_plus_exp(x, negative(mul(slope, x)));
  }
};

// x sigmoid(alpha x): silu, swish and quick_gelu.
struct Swish {
  float alpha;
  FFN_INLINE Float operator()(Float x) const { return x_over_one_plus_exp(x, mul(splat(-alpha), x)); }
};

// x tanh(ln(1 + e)) = x (e^2 + 2 e) / (e^2 + 2 e + 2), e = exp(x). From 20 on it is x to the last bit.
struct Mish {
  FFN_INLINE Float operator()(Float x) const {
    const Float e = Exponential(at_most(20.0f, x)).value();
    const Float n = mul(e, add(e, splat(2.0f)));
    return faded(x, sub(splat(-87.0f), x), mul(x, div(n, add(n, splat(2.0f)))));
  }
};

struct HardSwish {
  FFN_INLINE Float operator()(Float x) const {
    return mul(x, at_least(0.0f, at_most(1.0f, fma(x, splat(1.0f / 6.0f), splat(0.5f)))));
  }
};

struct Tanh {
  FFN_INLINE Float operator()(Float x) const {
    x = at_least(-7.90531110763549805f, at_most(7.90531110763549805f, x));
    const Float s = mul(x, x);
    Float p = splat(-2.76076847742355e-16f);
    p = fma(p, s, splat(2.00018790482477e-13f));
    p = fma(p, s, splat(-8.60467152213735e-11f));
    p = fma(p, s, splat(5.12229709037114e-08f));
    p = fma(p, s, splat(1.48572235717979e-05f));
    p = fma(p, s, splat(6.37261928875436e-04f));
    p = fma(p, s, splat(4.89352455891786e-03f));
    Float q = splat(1.19825839466702e-06f);
    q = fma(q, s, splat(1.18534705686654e-04f));
    q = fma(q, s, splat(2.26843463243900e-03f));
    q = fma(q, s, splat(4.89352518554385e-03f));
    return div(mul(x, p), q);
  }
};

struct Sigmoid {
  FFN_INLINE Float operator()(Float x) const { return x_over_one_plus_exp(splat(1.0f), negative(x)); }
};

struct Elu {
  float alpha;
  FFN_INLINE Float operator()(Float x) const {
    const Float below = mul(splat(alpha), Exponential(at_most(0.0f, x)).value_less_one());
    return where_positive(x, x, below);
  }
};

struct LeakyRelu {
  float alpha;
  FFN_INLINE Float operator()(Float x) const { return where_positive(x, x, mul(splat(alpha), x)); }
};

// max(x, 0) + ln(1 + e), e = exp(-|x|) in (0, 1]. With s = e / (2 + e), at most a third: ln(1 + e) = 2 artanh(s).
struct Softplus {
  FFN_INLINE Float operator()(Float x) const {
    const Float e = Exponential(negative(magnitude(x))).value();
    const Float s = div(e, add(splat(2.0f), e)), t = mul(s, s);
    Float p = splat(1.0f / 15);
    p = fma(p, t, splat(1.0f / 13));
    p = fma(p, t, splat(1.0f / 11));
    p = fma(p, t, splat(1.0f / 9));
    p = fma(p, t, splat(1.0f / 7));
    p = fma(p, t, splat(1.0f / 5));
    p = fma(p, t, splat(1.0f / 3));
    p = fma(p, t, splat(1.0f));
    return fma(mul(splat(2.0f), s), p, at_least(0.0f, x));
  }
};

struct Softsign {
  FFN_INLINE Float operator()(Float x) const { return div(x, add(splat(1.0f), magnitude(x))); }
};

// Calls `use` with the activation, so that a loop over a tile has no branch. `OfOperands`: the results are rounded to
// bfloat16 or 8 bits.
template <bool OfOperands, class Use>
FFN_INLINE void with_activation(Activation activation, float alpha, const Use& use) {
  switch (activation) {
    case Activation::kIdentity: return use(Identity{});
    case Activation::kRelu: return use(Relu{});
    case Activation::kRelu2: return use(Relu2{});
    case Activation::kGelu: return use(std::conditional_t<OfOperands, GeluOfOperands, Gelu>{});
    case Activation::kGeluTanh: return use(GeluTanh{});
    case Activation::kSwish: return use(Swish{alpha});
    case Activation::kMish: return use(Mish{});
    case Activation::kHardSwish: return use(HardSwish{});
    case Activation::kTanh: return use(Tanh{});
    case Activation::kSigmoid: return use(Sigmoid{});
    case Activation::kElu: return use(Elu{alpha});
    case Activation::kLeakyRelu: return use(LeakyRelu{alpha});
    case Activation::kSoftplus: return use(Softplus{});
    case Activation::kSoftsign: return use(Softsign{});
  }
}

}  // namespace
