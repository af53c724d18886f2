// Times products and attention by each kernel on this thread, which other processes may disturb: milliseconds of
// processor time, the least of many runs, and billions of products and sums a second.
//
//     bench ffn D F [gated] TOKENS...      bench linear K N TOKENS...      bench attention HEADS SIZE TOKENS...
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <set>
#include <utility>

#include "attention.h"
#include "dispatch.h"
#include "hosts.h"
#include "reference.h"

namespace {

double seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void report(const char* name, int tokens, double products, const std::function<void()>& work) {
  double best = 1e9;
  for (const double begin = seconds(); seconds() < begin + 0.4;) {
    const double start = seconds();
    work();
    best = std::min(best, seconds() - start);
  }
  std::printf("%-42s %5d tokens %9.4f ms %8.1f G/s\n", name, tokens, best * 1e3, 1e-9 * products * tokens / best);
}

}  // namespace

int main(int count, char** words) {
  if (count < 5) return std::fprintf(stderr, "usage: bench ffn|linear|attention SIZE SIZE TOKENS...\n"), 2;
  const std::string what = words[1];
  const int a = std::atoi(words[2]), b = std::atoi(words[3]);
  const bool gated = std::strcmp(words[4], "gated") == 0;
  const auto here = ffn::instruction_sets(std::getenv(ffn::kAllowedVariable));
  auto other = here;  // bfloat16 in the way that is not chosen here
  other.amx = false;
  other.fast_bf16 = here.bf16 && !here.fast_bf16;
  const test::Drawn drawn(gated ? test::Activation::kSwish : test::Activation::kGelu, 1, a, b, a, gated, !gated);
  const test::OneThread host;
  std::set<const void*> timed;
  const std::pair<ffn::Precision, ffn::InstructionSets> paths[] = {{ffn::Precision::kFloat32, here},
                                                                   {ffn::Precision::kBfloat16, here},
                                                                   {ffn::Precision::kBfloat16, other},
                                                                   {ffn::Precision::kInt8, here}};
  for (const auto& [precision, sets] : paths) {
    const ffn::Kernels* kernels = ffn::choose(precision, sets);
    const ffn::AttentionKernels* attention = ffn::choose_attention(precision, sets);
    const void* its = what == "attention" ? static_cast<const void*>(attention) : kernels;
    if (!kernels || !timed.insert(its).second) continue;
    const ffn::Projections projections = what == "linear"
                                             ? ffn::Projections(*kernels, {drawn.spec.w1, drawn.spec.b1, {b}, {}, {}})
                                             : ffn::Projections(*kernels, drawn.spec);
    for (int i = gated ? 5 : 4; i < count; i++) {
      const int tokens = std::atoi(words[i]);
      const test::Floats x = test::drawn_input(tokens * (what == "attention" ? 3 * a * b : a));
      test::Floats y(static_cast<size_t>(tokens * (what == "attention" ? a * b : std::max(a, b))));
      float* result = y.data();
      if (what == "attention") {
        const int width = a * b;
        const ffn::Attention each{x.data(),
                                  x.data() + width,
                                  x.data() + 2 * width,
                                  3 * width,
                                  3 * width,
                                  3 * width,
                                  nullptr,
                                  0,
                                  0,
                                  0,
                                  0,
                                  result,
                                  1,
                                  a,
                                  a,
                                  tokens,
                                  tokens,
                                  b,
                                  0.1f,
                                  false};
        report(attention->name, tokens, 2.0 * width * tokens, [&] { ffn::attend(*attention, each, host); });
      } else {
        const double products = what == "linear" ? 1 : gated ? 3 : 2;
        report(kernels->name, tokens, products * a * b,
               [&] { projections.run(x.data(), nullptr, &result, tokens, host); });
      }
    }
  }
}
