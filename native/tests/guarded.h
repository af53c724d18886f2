// Memory that ends where a page without access begins: reading or writing one element past the end is a fault.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace test {

class Guarded {
 public:
  explicit Guarded(size_t floats) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE)), bytes = floats * sizeof(float);
    size_ = (bytes + page - 1) / page * page + page;
    base_ = static_cast<char*>(mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (base_ == MAP_FAILED || mprotect(base_ + size_ - page, page, PROT_NONE) != 0) std::abort();
    data_ = reinterpret_cast<float*>(base_ + size_ - page - bytes);
  }
  ~Guarded() { munmap(base_, size_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  float* data() { return data_; }

 private:
  char* base_;
  size_t size_;
  float* data_;
};

}  // namespace test
