// Aligned memory: for weights that are kept, and for scratch that is lent.
#pragma once

#include <cstddef>
#include <memory>

namespace ffn {

struct Free {
  void operator()(void* memory) const;
};
template <class T>
using Aligned = std::unique_ptr<T[], Free>;

// Zeroed memory that begins at a cache line; from two megabytes on at a huge page, which saves misses of the TLB.
void* allocate(size_t bytes);
template <class T>
Aligned<T> allocate_array(size_t count) {
  return Aligned<T>(static_cast<T*>(allocate(count * sizeof(T))));
}

// Cuts memory into pieces that begin at cache lines. Without memory it counts the bytes that the pieces take, so that
// one layout serves both. Always inlined, since kernels use it (see kernels/simd_avx512.h).
class Pieces {
 public:
  __attribute__((always_inline)) explicit Pieces(char* memory = nullptr) : memory_(memory) {}
  template <class T>
  __attribute__((always_inline)) T* take(long count) {
    char* piece = memory_ ? memory_ + bytes_ : nullptr;
    bytes_ += (static_cast<size_t>(count) * sizeof(T) + 63) / 64 * 64;
    return reinterpret_cast<T*>(piece);
  }
  __attribute__((always_inline)) size_t bytes() const { return bytes_; }

 private:
  char* memory_;
  size_t bytes_ = 0;
};

// Scratch of one call, out of a pool of the process: as many pieces as calls ever ran at once, each as large as was
// ever asked of it. Not thread-local: other threads work in the scratch of a call, too. Not zeroed.
class Scratch {
 public:
  explicit Scratch(size_t bytes);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  char* data() { return memory_.get(); }

 private:
  Aligned<char> memory_;
  size_t bytes_ = 0;
};

}  // namespace ffn
