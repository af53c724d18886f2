// One or two products with packed weights, and what belongs to them: norm, activation, residual.
//
//     feed-forward    y = (act(x W1 + b1) * (x W3 + b3)) W2 + b2
//     linear          y = x W + b, which may be cut along its columns into several results
//
// A norm stands before the first product or behind the sum with the residual.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels.h"
#include "panels.h"
#include "parallel.h"
#include "shared_weights.h"

namespace ffn {

enum class NormPlace { kNone, kPre, kPost };

// What a node asks for. Matrices, biases and scales are read while the object is made, and not after.
struct FeedForwardSpec {
  Activation activation = Activation::kIdentity;
  float alpha = 1;
  Matrix w1, w2, w3;  // w3 is empty where the feed-forward is not gated
  const float *b1 = nullptr, *b2 = nullptr, *b3 = nullptr;
  NormPlace norm_place = NormPlace::kNone;
  Norm norm;
};

struct LinearSpec {
  Matrix w;
  const float* b = nullptr;
  std::vector<int> splits;  // columns of each result
  NormPlace norm_place = NormPlace::kNone;
  Norm norm;
};

class Projections {
 public:
  Projections(const Kernels& kernels, const FeedForwardSpec& spec);
  Projections(const Kernels& kernels, const LinearSpec& spec);

  int columns_in() const { return columns_in_; }
  size_t results() const { return last_.size(); }
  int columns_out(size_t result) const { return last_[result]->columns; }
  // x is tokens x columns_in, each y is tokens x columns_out, and so is the residual, which may be null. Any number of
  // threads may call it at once.
  void run(const float* x, const float* residual, float* const* y, long tokens, const Parallel& parallel) const;

 private:
  struct Block;
  void run(const Block& block, const Parallel& parallel) const;
  void keep(NormPlace place, const Norm& norm);

  const Kernels& kernels_;
  int columns_in_;
  NormPlace norm_place_ = NormPlace::kNone;
  Norm norm_;
  std::vector<float> norm_scale_, norm_bias_;  // to which norm_ points
  Activation activation_ = Activation::kIdentity;
  float alpha_ = 1;
  SharedWeights up_;                 // of a feed-forward
  std::vector<SharedWeights> last_;  // one for each result
};

}  // namespace ffn
