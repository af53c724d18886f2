#include "attention.h"

#include <algorithm>
#include <atomic>
#include <new>

#include "memory.h"

namespace ffn {

void attend(const AttentionKernels& kernels, const Attention& attention, const Parallel& parallel) {
  const long rows = static_cast<long>(attention.batch) * attention.queries;
  if (attention.keys == 0) std::fill_n(attention.to, rows * attention.heads * attention.size, 0.0f);
  if (attention.keys == 0 || rows == 0) return;
  const size_t bytes = kernels.scratch(attention);
  std::atomic<bool> no_memory{false};
  in_parallel(parallel, kernels.tasks(attention), [&](int task) {
    try {  // as many pieces as tasks run at once, which only the host knows
      Scratch scratch(bytes);
      kernels.run(attention, task, scratch.data());
    } catch (const std::bad_alloc&) {
      no_memory = true;
    }
  });
  if (no_memory) throw std::bad_alloc();
}

}  // namespace ffn
