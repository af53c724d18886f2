#include "memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace ffn {
namespace {

struct Piece {
  Aligned<char> memory;
  size_t bytes = 0;
};

std::mutex mutex;
// Never destroyed: a session may end after the library's other globals.
std::vector<Piece>& pool() {
  static auto* pieces = new std::vector<Piece>;
  return *pieces;
}

}  // namespace

void Free::operator()(void* memory) const { std::free(memory); }

void* allocate(size_t bytes) {
  constexpr size_t kHuge = size_t{2} << 20;
  const size_t alignment = bytes >= kHuge ? kHuge : 64;
  const size_t rounded = (bytes + 63) / 64 * 64;
  void* memory = nullptr;
  if (posix_memalign(&memory, alignment, rounded ? rounded : 64) != 0) throw std::bad_alloc();
#if defined(MADV_HUGEPAGE)
  if (bytes >= kHuge) madvise(memory, rounded / kHuge * kHuge, MADV_HUGEPAGE);
#endif
  std::memset(memory, 0, rounded);
  return memory;
}

Scratch::Scratch(size_t bytes) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (!pool().empty()) {
      memory_ = std::move(pool().back().memory);
      bytes_ = pool().back().bytes;
      pool().pop_back();
    }
  }
  if (bytes_ < bytes) {
    memory_ = nullptr;  // first, so that both are never there at once
    memory_ = allocate_array<char>(bytes);
    bytes_ = bytes;
  }
}

Scratch::~Scratch() {
  std::lock_guard<std::mutex> lock(mutex);
  try {
    pool().push_back({std::move(memory_), bytes_});
  } catch (const std::bad_alloc&) {  // then this piece is freed
  }
}

}  // namespace ffn
