// Times feed-forwards by each kernel on this thread: milliseconds, the least of many runs, and billions of products
// and sums a second. `bench D F [gated] TOKENS...`
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "dispatch.h"
#include "hosts.h"
#include "reference.h"

int main(int count, char** words) {
  if (count < 4) return std::fprintf(stderr, "usage: bench D F [gated] TOKENS...\n"), 2;
  const int d = std::atoi(words[1]), f = std::atoi(words[2]);
  const bool gated = std::strcmp(words[3], "gated") == 0;
  const auto activation = gated ? ffn::Activation::kSwish : ffn::Activation::kGelu;
  const test::Drawn drawn(activation, 1, d, f, d, gated, !gated);
  const auto sets = ffn::instruction_sets(std::getenv(ffn::kAllowedVariable));
  for (auto precision : {ffn::Precision::kFloat32, ffn::Precision::kBfloat16, ffn::Precision::kInt8}) {
    const ffn::Kernels* kernels = ffn::choose(precision, sets);
    if (!kernels) continue;
    const ffn::FeedForward feed_forward(*kernels, drawn.spec);
    for (int i = gated ? 4 : 3; i < count; i++) {
      const int tokens = std::atoi(words[i]);
      const std::vector<float> x = test::drawn_input(tokens * d);
      std::vector<float> y(x.size());
      double best = 1e9;
      const auto begin = std::chrono::steady_clock::now();
      const auto seconds = [](auto from) {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
      };
      while (seconds(begin) < 0.7) {
        const auto start = std::chrono::steady_clock::now();
        feed_forward.run(x.data(), y.data(), tokens, test::OneThread());
        best = std::min(best, seconds(start));
      }
      std::printf("%-26s %5d tokens %9.4f ms %8.1f G/s\n", kernels->name, tokens, best * 1e3,
                  1e-9 * (gated ? 3 : 2) * d * f * tokens / best);
    }
  }
}
