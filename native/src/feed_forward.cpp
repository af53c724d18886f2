// Tokens are taken in blocks, and each block runs through phases:
//
//     x  --convert-->  units  ==up==>  hidden  --convert-->  units  ==down==>  y
//        rows                tiles            rows, int8 only     tiles
//
// A phase is a set of equal tasks that do not depend on each other. The host runs them on its threads and no call tells
// how many these are, so a phase is cut as finely as it can be: into tiles. On one thread that costs nothing, since the
// order of the tiles is the order in which one thread would compute them anyway.
//
// A block is as large as its hidden activations fit the second-level cache, or as large as weights from a far cache
// need.
#include "feed_forward.h"

#include "memory.h"

namespace ffn {
namespace {

// Apart by a cache line more than a row needs: rows a power of two apart would share their places in the cache.
long stride_of(long elements) { return (elements + 15) / 16 * 16 + 16; }

template <class Task>
void in_parallel(const Parallel& parallel, int count, const Task& task) {
  if (count == 1) return task(0);
  parallel.run(
      static_cast<size_t>(count),
      [](void* data, size_t index) { (*static_cast<const Task*>(data))(static_cast<int>(index)); },
      const_cast<Task*>(&task));
}

// Rows that one task converts: fewer would cost more in handing out than in work.
constexpr int kRowsOfTask = 8;

void convert(const Kernels& kernels, const float* from, long from_stride, int columns, int32_t* to, long to_stride,
             long units, RowScale* scales, int rows, const Parallel& parallel) {
  in_parallel(parallel, (rows + kRowsOfTask - 1) / kRowsOfTask, [&](int task) {
    const int first = task * kRowsOfTask, last = first + kRowsOfTask < rows ? first + kRowsOfTask : rows;
    for (int row = first; row < last; row++)
      kernels.convert(from + row * from_stride, columns, to + row * to_stride, units, scales + row);
  });
}

void multiply(const Kernels& kernels, const Product& product, const Parallel& parallel) {
  in_parallel(parallel, kernels.tasks(product.tokens, product.weights->panels),
              [&](int task) { kernels.run(product, task); });
}

}  // namespace

FeedForward::FeedForward(const Kernels& kernels, const FeedForwardSpec& spec)
    : kernels_(kernels),
      activation_(spec.activation),
      alpha_(spec.alpha),
      d_model_(spec.w1.rows),
      d_ff_(spec.w1.columns),
      up_(pack(kernels.format, spec.w1, spec.b1, spec.w3, spec.b3)),
      down_(pack(kernels.format, spec.w2, spec.b2, {}, nullptr)) {}

void FeedForward::run(const float* x, float* y, long tokens, const Parallel& parallel) const {
  if (tokens == 0) return;
  const Format& format = kernels_.format;
  const bool integers = format.precision == Precision::kInt8;
  const long blocks = (tokens + format.block - 1) / format.block;
  const size_t most = static_cast<size_t>((tokens + blocks - 1) / blocks);
  const long x_stride = stride_of(up_.units), hidden_stride = stride_of(down_.units), float_stride = stride_of(d_ff_);
  const size_t x_size = most * static_cast<size_t>(x_stride), hidden_size = most * static_cast<size_t>(hidden_stride);
  const size_t float_size = integers ? most * static_cast<size_t>(float_stride) : 0;

  Scratch scratch(Scratch::size<int32_t>(x_size) + Scratch::size<int32_t>(hidden_size) +
                  Scratch::size<float>(float_size) + 2 * Scratch::size<RowScale>(most));
  auto* x_units = scratch.take<int32_t>(x_size);
  auto* hidden_units = scratch.take<int32_t>(hidden_size);
  auto* hidden = scratch.take<float>(float_size);
  auto* x_scales = scratch.take<RowScale>(most);
  auto* hidden_scales = scratch.take<RowScale>(most);
  if (!integers) {  // the product writes d_ff elements of a row; the units after them have to be zero
    for (size_t row = 0; row < most; row++) {
      int32_t* units = hidden_units + static_cast<long>(row) * hidden_stride;
      for (long k = d_ff_ / format.elements; k < down_.units; k++) units[k] = 0;
    }
  }

  for (long block = 0; block < blocks; block++) {
    const long first = tokens * block / blocks;
    const int rows = static_cast<int>(tokens * (block + 1) / blocks - first);
    convert(kernels_, x + first * d_model_, d_model_, d_model_, x_units, x_stride, up_.units, x_scales, rows, parallel);

    Product up{x_units,     x_stride, x_scales, rows,         &up_,
               activation_, alpha_,   true,     hidden_units, hidden_stride * format.elements};
    if (integers) {
      up.to = hidden;
      up.to_stride = float_stride;
    }
    multiply(kernels_, up, parallel);
    if (integers)
      convert(kernels_, hidden, float_stride, d_ff_, hidden_units, hidden_stride, down_.units, hidden_scales, rows,
              parallel);

    const Product down{hidden_units,
                       hidden_stride,
                       hidden_scales,
                       rows,
                       &down_,
                       Activation::kIdentity,
                       0,
                       false,
                       y + first * down_.columns,
                       down_.columns};
    multiply(kernels_, down, parallel);
  }
}

}  // namespace ffn
