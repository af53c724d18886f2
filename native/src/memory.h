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

// Scratch of one call, out of a pool of the process: as many pieces as calls ever ran at once, each as large as was
// ever asked of it. Not thread-local: other threads work in the scratch of a call, too.
class Scratch {
 public:
  explicit Scratch(size_t bytes);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // The next `count` elements, at a cache line; not zeroed.
  template <class T>
  T* take(size_t count) {
    return static_cast<T*>(take_bytes(count * sizeof(T)));
  }
  // What a piece of `count` elements takes of the bytes that the constructor is asked for.
  template <class T>
  static size_t size(size_t count) {
    return (count * sizeof(T) + kLine - 1) / kLine * kLine;
  }

 private:
  static constexpr size_t kLine = 64;
  void* take_bytes(size_t bytes);

  Aligned<char> memory_;
  size_t bytes_ = 0, used_ = 0;
};

}  // namespace ffn
