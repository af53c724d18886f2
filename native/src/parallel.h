// Tasks on the threads of a host.
#pragma once

#include <cstddef>

namespace ffn {

// Runs `task` for 0 .. count - 1 on the threads of a host and returns when all are done. A task throws nothing.
class Parallel {
 public:
  using Task = void (*)(void* data, size_t index);
  virtual void run(size_t count, Task task, void* data) const = 0;

 protected:
  ~Parallel() = default;
};

template <class Task>
void in_parallel(const Parallel& parallel, int count, const Task& task) {
  if (count == 1) return task(0);
  parallel.run(
      static_cast<size_t>(count),
      [](void* data, size_t index) { (*static_cast<const Task*>(data))(static_cast<int>(index)); },
      const_cast<Task*>(&task));
}

}  // namespace ffn
