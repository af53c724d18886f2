// Hosts of tasks, as ONNX Runtime is one: on this thread, or on several.
#pragma once

#include <atomic>
#include <thread>
#include <vector>

#include "parallel.h"

namespace test {

struct OneThread final : ffn::Parallel {
  void run(size_t count, Task task, void* data) const override {
    for (size_t i = 0; i < count; i++) task(data, i);
  }
};

struct Backwards final : ffn::Parallel {
  void run(size_t count, Task task, void* data) const override {
    for (size_t i = count; i-- > 0;) task(data, i);
  }
};

struct Threads final : ffn::Parallel {
  explicit Threads(int count) : count_(count) {}
  void run(size_t count, Task task, void* data) const override {
    std::atomic<size_t> next{0};
    const auto work = [&] {
      for (size_t i = next++; i < count; i = next++) task(data, i);
    };
    std::vector<std::thread> threads;
    for (int i = 1; i < count_; i++) threads.emplace_back(work);
    work();
    for (std::thread& thread : threads) thread.join();
  }

 private:
  int count_;
};

}  // namespace test
