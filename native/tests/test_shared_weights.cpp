// Sharing: equal weights have one address, others never, and the last holder frees them, whatever the threads do.
#include <thread>

#include "check.h"
#include "reference.h"
#include "shared_weights.h"

namespace {

using namespace test;
using ffn::Format;
using ffn::SharedWeights;

constexpr Format kFloat32{Precision::kFloat32, 16, 32, 1, 4, 0, 0};
constexpr Format kBfloat16{Precision::kBfloat16, 16, 32, 2, 4, 0, 0};
constexpr Format kInt8{Precision::kInt8, 16, 32, 4, 4, 0, 4};

SharedWeights shared(const Format& format, const Drawn& drawn, const float* bias) {
  return ffn::share(ffn::pack(format, drawn.spec.w1, bias, {}, nullptr));
}

void equal_ones_are_one() {
  for (const Format& format : {kFloat32, kBfloat16, kInt8}) {
    Drawn a(Activation::kRelu, 1, 40, 50, 1, false, true), b(Activation::kRelu, 1, 40, 50, 1, false, true);
    a.give_smoothing(), b.give_smoothing();
    const SharedWeights first = shared(format, a, a.spec.b1), second = shared(format, b, b.spec.b1);
    check(first == second && ffn::weights_held() == 1, "equal weights at one address");
  }
  check(ffn::weights_held() == 0, "the last holder frees the weights");
}

// Each of these differs from the first in one thing, most of them with the same panels.
void others_are_not() {
  const Drawn drawn(Activation::kRelu, 1, 40, 50, 1, false, true);
  Drawn changed = drawn, smooth = drawn;
  changed.w1[39 * 50 + 49] += 1;
  changed.spec.w1.data = changed.w1.data();
  smooth.give_smoothing();
  std::vector<float> bias(drawn.b1);
  bias.back() = -bias.back();
  const std::vector<float> zeros(40 * 64);
  const auto of_zeros = [&](const Format& format, int rows, int columns) {
    return ffn::share(ffn::pack(format, {zeros.data(), rows, columns, columns, 1}, nullptr, {}, nullptr));
  };
  const SharedWeights all[] = {shared(kFloat32, drawn, drawn.spec.b1),
                               shared(kFloat32, drawn, nullptr),
                               shared(kFloat32, drawn, bias.data()),
                               shared(kFloat32, changed, drawn.spec.b1),
                               shared(kBfloat16, drawn, drawn.spec.b1),
                               shared(kInt8, drawn, drawn.spec.b1),
                               shared(kInt8, smooth, drawn.spec.b1),
                               of_zeros(kFloat32, 40, 64),
                               of_zeros(kFloat32, 40, 63),
                               of_zeros(kFloat32, 39, 64)};
  constexpr size_t kCount = sizeof all / sizeof *all;
  check(ffn::weights_held() == kCount, "different weights are kept apart");
}

void any_order_of_ends() {
  const Drawn drawn(Activation::kRelu, 1, 40, 50, 1, false, true);
  SharedWeights first = shared(kFloat32, drawn, nullptr), second = shared(kFloat32, drawn, nullptr);
  const std::weak_ptr<const ffn::Weights> weak = first;
  first.reset();
  const SharedWeights third = shared(kFloat32, drawn, nullptr);
  check(second == third, "the first holder may end first");
  second.reset();
  check(!weak.expired() && third->data[0] != 0, "a later holder keeps the weights");
}

// Threads make and drop the same few weights; those that are held at the same time are one.
void threads_share_and_drop() {
  std::vector<Drawn> drawn;
  for (int i = 0; i < 4; i++) drawn.emplace_back(Activation::kRelu, 1, 24, 33 + i, 1, false, true);
  std::vector<SharedWeights> kept;
  for (int i = 0; i < 2; i++) kept.push_back(shared(kFloat32, drawn[static_cast<size_t>(i)], nullptr));
  std::vector<int> wrong(8);
  std::vector<std::thread> threads;
  for (size_t number = 0; number < wrong.size(); number++) {
    threads.emplace_back([&, number] {
      std::vector<SharedWeights> held(4);
      for (size_t turn = 0; turn < 200; turn++) {
        const size_t i = (turn * 7 + number) % 4;
        const SharedWeights made = shared(kFloat32, drawn[i], nullptr);
        wrong[number] += (held[i] && held[i] != made) || (i < 2 && kept[i] != made);
        wrong[number] += made->columns != 33 + static_cast<int>(i);
        held[i] = made;
        held[(turn + number) % 4].reset();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int each : wrong) check(each == 0, "threads share weights");
  check(ffn::weights_held() == 2, "weights that threads dropped are freed");
}

}  // namespace

int main() {
  equal_ones_are_one();
  others_are_not();
  any_order_of_ends();
  threads_share_and_drop();
  check(ffn::weights_held() == 0, "nothing is left");
  return report();
}
