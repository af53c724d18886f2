// Tokens are taken in blocks, and each block runs through phases:
//
//     x  --norm, convert-->  units  ==up==>  hidden  --convert-->  units  ==down==>  y  --norm-->  y
//              rows                 tiles            rows, int8 only     tiles           rows
//        |_________________|  |________________________________|  |______________________________|
//               both                feed-forward alone                        both
//
// A phase is a set of equal tasks that do not depend on each other; deep products have several (below). The host runs
// them on its threads and no call tells how many these are, so a phase is cut as finely as it can be: into tiles. On
// one thread that costs nothing, since the order of the tiles is the order in which one thread would compute them
// anyway.
//
// A block is as large as its hidden activations fit the second-level cache, or as large as weights from a far cache
// need. The norms are taken of rows that the block has just read or written.
#include "projections.h"

#include <algorithm>

#include "memory.h"

namespace ffn {
namespace {

// Apart by a cache line more than a row needs: rows a power of two apart would share their places in the cache.
long stride_of(long elements) { return (elements + 15) / 16 * 16 + 16; }

// Rows that one task takes: fewer would cost more in handing out than in work.
constexpr int kRowsOfTask = 8;

template <class Row>
void each_row(int rows, const Parallel& parallel, const Row& row) {
  in_parallel(parallel, (rows + kRowsOfTask - 1) / kRowsOfTask, [&](int task) {
    const int first = task * kRowsOfTask, last = std::min(first + kRowsOfTask, rows);
    for (int i = first; i < last; i++) row(i);
  });
}

// Rows of units, as the next product reads them.
struct Units {
  int32_t* data = nullptr;
  long stride = 0;
  RowScale* scales = nullptr;
};

// Rows of float32 between two phases.
struct Floats {
  float* data = nullptr;
  long stride = 0;
};

Product product(const Units& a, int rows, const Weights& weights) {
  Product p{};
  p.a = a.data;
  p.a_stride = a.stride;
  p.scales = a.scales;
  p.tokens = rows;
  p.weights = &weights;
  p.activation = Activation::kIdentity;
  p.alpha = 1;
  p.end_panel = weights.panels;
  p.end_unit = weights.units;
  return p;
}

// A deep product, of many units of K, is computed in stretches of K, so that most of what is read again stays in the
// second-level cache: a stretch of the block's rows for the next panel, and of a panel for the next rows. The sums of
// some panels wait in memory meanwhile (decision 40).
//
//     panels     0 .. 31         32 .. 63
//             +------------+  +------------+
//     K       |  phase 0   |  |  phase 3   |
//             |  phase 1   |  |  phase 4   |
//             |  phase 2   |  |  phase 5   |  the last one of a column writes the results
//             +------------+  +------------+
constexpr int kSums = 1 << 17;  // of float32: half a megabyte
constexpr int kMostPanelsOfTask = 8, kLeastPanels = 32;

// As many as have kSums, but enough for many threads.
int panels_of_phase(const Format& format, int rows) {
  return std::max(kSums / (rows * format.panel) / kMostPanelsOfTask * kMostPanelsOfTask, kLeastPanels);
}

// Elements that a block of `most` rows or fewer needs.
long sums_of(const Kernels& kernels, int most, const Weights& w) {
  if (kernels.stretch(most, w.units) == w.units) return 0;
  const long row = kernels.format.panel, all = most * row * w.panels;
  return std::min(all, std::max<long>(kSums, most * row * kLeastPanels));
}

void multiply_deep(const Kernels& kernels, Product p, float* sums, const Parallel& parallel) {
  const Weights& w = *p.weights;
  const long stretch = kernels.stretch(p.tokens, w.units);
  const int panels = panels_of_phase(kernels.format, p.tokens);
  p.sums = sums;
  for (p.first_panel = 0; p.first_panel < w.panels; p.first_panel = p.end_panel) {
    p.end_panel = std::min(p.first_panel + panels, w.panels);
    for (p.first_unit = 0; p.first_unit < w.units; p.first_unit = p.end_unit) {
      p.end_unit = std::min(p.first_unit + stretch, w.units);
      in_parallel(parallel, kernels.tasks(p), [&](int task) { kernels.run(p, task); });
    }
  }
}

// The tiles of all products are tasks of one phase, unless they are deep. All have the same K.
void multiply(const Kernels& kernels, const Product* products, size_t count, float* sums, const Parallel& parallel) {
  const long units = products[0].weights->units;
  if (kernels.stretch(products[0].tokens, units) < units) {
    for (size_t i = 0; i < count; i++) multiply_deep(kernels, products[i], sums, parallel);
    return;
  }
  int all = 0;
  for (size_t i = 0; i < count; i++) all += kernels.tasks(products[i]);
  in_parallel(parallel, all, [&](int task) {
    const Product* p = products;
    for (; task >= kernels.tasks(*p); p++) task -= kernels.tasks(*p);
    kernels.run(*p, task);
  });
}

}  // namespace

// A block of tokens, and the scratch that it is computed in.
struct Projections::Block {
  int rows;
  const float *x, *residual;
  std::vector<float*> y;
  Floats normed;  // the input behind a norm
  Units input, hidden;
  Floats unscaled;  // int8: hidden activations, before it is known how a row is scaled
  float* sums;      // of a deep product
};

Projections::Projections(const Kernels& kernels, const FeedForwardSpec& spec)
    : kernels_(kernels),
      columns_in_(spec.w1.rows),
      activation_(spec.activation),
      alpha_(spec.alpha),
      up_(share(pack(kernels.format, spec.w1, spec.b1, spec.w3, spec.b3))) {
  last_.push_back(share(pack(kernels.format, spec.w2, spec.b2, {}, nullptr)));
  keep(spec.norm_place, spec.norm);
}

Projections::Projections(const Kernels& kernels, const LinearSpec& spec) : kernels_(kernels), columns_in_(spec.w.rows) {
  int first = 0;
  for (const int columns : spec.splits) {
    last_.push_back(
        share(pack(kernels.format, spec.w.part(first, columns), spec.b ? spec.b + first : nullptr, {}, nullptr)));
    first += columns;
  }
  keep(spec.norm_place, spec.norm);
}

void Projections::keep(NormPlace place, const Norm& norm) {
  norm_place_ = place;
  norm_ = norm;
  if (place == NormPlace::kNone) return;
  norm_scale_.assign(norm.scale, norm.scale + norm.width);
  norm_.scale = norm_scale_.data();
  if (!norm.bias) return;
  norm_bias_.assign(norm.bias, norm.bias + norm.width);
  norm_.bias = norm_bias_.data();
}

void Projections::run(const float* x, const float* residual, float* const* y, long tokens,
                      const Parallel& parallel) const {
  if (tokens == 0) return;
  const Format& format = kernels_.format;
  const long blocks = (tokens + format.block - 1) / format.block;
  const int most = static_cast<int>((tokens + blocks - 1) / blocks);
  const bool integers = format.precision == Precision::kInt8;

  Block block{};
  block.y.resize(last_.size());
  const auto lay_out = [&](Pieces pieces) {
    const auto floats = [&](Floats& to, long columns) {
      to.stride = stride_of(columns);
      to.data = pieces.take<float>(most * to.stride);
    };
    const auto units = [&](Units& to, const Weights& next) {
      to.stride = stride_of(next.units * format.words);
      to.data = pieces.take<int32_t>(most * to.stride);
      to.scales = pieces.take<RowScale>(most * next.groups);
    };
    long sums = up_ ? sums_of(kernels_, most, *up_) : 0;
    for (const SharedWeights& w : last_) sums = std::max(sums, sums_of(kernels_, most, *w));
    block.sums = pieces.take<float>(sums);
    if (norm_place_ == NormPlace::kPre) floats(block.normed, columns_in_);
    units(block.input, up_ ? *up_ : *last_[0]);
    if (up_) units(block.hidden, *last_[0]);
    if (up_ && integers) floats(block.unscaled, up_->columns);
    return pieces.bytes();
  };
  Scratch scratch(lay_out(Pieces()));
  lay_out(Pieces(scratch.data()));

  if (up_ && !integers) {  // the product writes its columns; the units after them have to be zero
    for (long row = 0; row < most; row++) {
      int32_t* to = block.hidden.data + row * block.hidden.stride;
      std::fill(to + up_->columns * format.words / format.elements, to + last_[0]->units * format.words, 0);
    }
  }
  for (long i = 0; i < blocks; i++) {
    const long first = tokens * i / blocks;
    block.rows = static_cast<int>(tokens * (i + 1) / blocks - first);
    block.x = x + first * columns_in_;
    block.residual = residual ? residual + first * last_[0]->columns : nullptr;
    for (size_t j = 0; j < last_.size(); j++) block.y[j] = y[j] + first * last_[j]->columns;
    run(block, parallel);
  }
}

void Projections::run(const Block& block, const Parallel& parallel) const {
  const int rows = block.rows;
  const auto convert = [&](const float* from, const Weights& next, const Units& to, int row) {
    const float* factors = next.inverse.empty() ? nullptr : next.inverse.data();
    kernels_.convert(from, factors, next.rows, to.data + row * to.stride, next.units, to.scales + row * next.groups);
  };
  each_row(rows, parallel, [&](int row) {
    const float* x = block.x + static_cast<long>(row) * columns_in_;
    if (norm_place_ == NormPlace::kPre) {
      float* normed = block.normed.data + row * block.normed.stride;
      kernels_.norm(norm_, x, normed);
      x = normed;
    }
    convert(x, up_ ? *up_ : *last_[0], block.input, row);
  });

  if (up_) {
    Product up = product(block.input, rows, *up_);
    up.activation = activation_;
    up.alpha = alpha_;
    up.as_units = true;
    up.to = block.hidden.data;
    up.to_stride = block.hidden.stride * kernels_.format.elements / kernels_.format.words;
    if (block.unscaled.data) {
      up.to = block.unscaled.data;
      up.to_stride = block.unscaled.stride;
    }
    multiply(kernels_, &up, 1, block.sums, parallel);
    if (block.unscaled.data) {
      each_row(rows, parallel, [&](int row) {
        convert(block.unscaled.data + row * block.unscaled.stride, *last_[0], block.hidden, row);
      });
    }
  }

  std::vector<Product> products;
  for (size_t i = 0; i < last_.size(); i++) {
    products.push_back(product(up_ ? block.hidden : block.input, rows, *last_[i]));
    products[i].residual = block.residual;
    products[i].to = block.y[i];
    products[i].to_stride = last_[i]->columns;
  }
  multiply(kernels_, products.data(), products.size(), block.sums, parallel);
  if (norm_place_ == NormPlace::kPost) {
    each_row(rows, parallel, [&](int row) {
      float* y = block.y[0] + static_cast<long>(row) * norm_.width;
      kernels_.norm(norm_, y, y);
    });
  }
}

}  // namespace ffn
