// A feed-forward with packed weights: y = (act(x W1 + b1) * (x W3 + b3)) W2 + b2.
#pragma once

#include <cstddef>

#include "kernels.h"
#include "panels.h"

namespace ffn {

// What a node asks for. Matrices and biases are read while the object is made, and not after.
struct FeedForwardSpec {
  Activation activation = Activation::kIdentity;
  float alpha = 1;
  Matrix w1, w2, w3;  // w3 is empty where the feed-forward is not gated
  const float *b1 = nullptr, *b2 = nullptr, *b3 = nullptr;
};

// Runs `task` for 0 .. count - 1 on the threads of a host and returns when all are done.
class Parallel {
 public:
  using Task = void (*)(void* data, size_t index);
  virtual void run(size_t count, Task task, void* data) const = 0;

 protected:
  ~Parallel() = default;
};

class FeedForward {
 public:
  FeedForward(const Kernels& kernels, const FeedForwardSpec& spec);

  int columns_in() const { return d_model_; }
  int columns_out() const { return down_.columns; }
  // x is tokens x columns_in, y is tokens x columns_out. Any number of threads may call it at once.
  void run(const float* x, float* y, long tokens, const Parallel& parallel) const;

 private:
  const Kernels& kernels_;
  Activation activation_;
  float alpha_;
  int d_model_, d_ff_;
  Weights up_, down_;
};

}  // namespace ffn
