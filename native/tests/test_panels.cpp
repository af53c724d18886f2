// Packing: each element of a model's matrix is where the drawing in panels.h has it, and all else is zero.
#include "check.h"
#include "panels.h"
#include "reference.h"

namespace {

using namespace test;
using ffn::Format;

// Where a column's scale in the group of k is.
size_t in_group(const Format& format, const ffn::Weights& w, int k, size_t column) {
  const size_t panel = column / static_cast<size_t>(format.panel), lane = column % static_cast<size_t>(format.panel);
  const size_t group = static_cast<size_t>(k / format.elements / format.group);
  return (panel * static_cast<size_t>(w.groups) + group) * static_cast<size_t>(format.panel) + lane;
}

float element(const Format& format, const ffn::Weights& w, int k, size_t column) {
  const size_t panel = column / static_cast<size_t>(format.panel), lane = column % static_cast<size_t>(format.panel);
  const int32_t* unit = w.data.get() +
                        (panel * static_cast<size_t>(w.units) + static_cast<size_t>(k / format.elements)) *
                            static_cast<size_t>(format.panel) +
                        lane;
  const char* bytes = reinterpret_cast<const char*>(unit);
  const int part = k % format.elements;
  if (format.precision == Precision::kFloat32) {
    float value;
    std::memcpy(&value, bytes, sizeof value);
    return value;
  }
  if (format.precision == Precision::kBfloat16) {
    uint16_t half;
    std::memcpy(&half, bytes + 2 * part, sizeof half);
    const uint32_t bits = static_cast<uint32_t>(half) << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
  int8_t q;
  std::memcpy(&q, bytes + part, sizeof q);
  return static_cast<float>(q) * w.scales[in_group(format, w, k, column)];
}

void packed(const Format& format, int k_count, int n_count, bool gated, bool transposed) {
  const Drawn drawn(Activation::kRelu, 1, k_count, n_count, 1, gated, true, transposed);
  const ffn::Weights w = ffn::pack(format, drawn.spec.w1, drawn.spec.b1, drawn.spec.w3, drawn.spec.b3);
  const Values first = rounded_weights(format, drawn.spec.w1);
  const Values second = gated ? rounded_weights(format, drawn.spec.w3) : Values();
  const int written = gated ? format.lanes : format.panel;
  bool right = w.columns == n_count && w.units % format.unroll == 0 && w.panels == (n_count + written - 1) / written;
  for (size_t c = 0; c < w.bias.size(); c++) {
    const int panel = static_cast<int>(c) / format.panel, lane = static_cast<int>(c) % format.panel;
    const bool other = gated && lane >= format.lanes;
    const int n = panel * written + (other ? lane - format.lanes : lane);
    const std::vector<float>& bias = other ? drawn.b3 : drawn.b1;
    right = right && w.bias[c] == (n < n_count ? bias[static_cast<size_t>(n)] : 0);
    std::vector<float> sums(static_cast<size_t>(w.groups));
    for (int k = 0; k < w.units * format.elements; k++) {
      const bool there = n < n_count && k < k_count;
      const double wanted = there ? (other ? second : first)[static_cast<size_t>(k * n_count + n)] : 0;
      const float got = element(format, w, k, c);
      right = right && std::fabs(got - wanted) <= 1e-6 * std::fabs(wanted);
      if (format.precision != Precision::kInt8) continue;
      sums[static_cast<size_t>(k / format.elements / format.group)] +=
          std::nearbyint(got / w.scales[in_group(format, w, k, c)]);
    }
    for (size_t group = 0; group < sums.size(); group++) {
      const int k = static_cast<int>(group) * static_cast<int>(format.group) * format.elements;
      right = right && sums[group] == w.sums[in_group(format, w, k, c)];
    }
  }
  check(right, "packing " + std::to_string(k_count) + " x " + std::to_string(n_count) + (gated ? ", gated" : "") +
                   (transposed ? ", transposed" : "") + ", " + std::to_string(format.elements) + " elements a unit");
}

// Two neighbours times 255 fit 16 bits.
void room_for_pairs() {
  const Format format{Precision::kInt8, 8, 16, 4, 4, 0, 4, 1, true};
  int most = 0;
  for (float second : {1.0f, 0.5f, 0.6f, 1e-3f, -1.0f, 3.0f}) {
    const float column[] = {1, second, second, 1, -1, -second, -1, 1};
    const ffn::Weights w = ffn::pack(format, {column, 8, 1, 1, 1}, nullptr, {}, nullptr);
    for (int unit = 0; unit < 2; unit++) {
      int8_t q[4];
      std::memcpy(q, w.data.get() + unit * format.panel, sizeof q);
      most = std::max({most, std::abs(q[0] + q[1]), std::abs(q[2] + q[3])});
    }
  }
  check(most == 126, "neighbours add up to " + std::to_string(most));
}

}  // namespace

int main() {
  room_for_pairs();
  const Format formats[] = {{Precision::kFloat32, 8, 16, 1, 4, 0, 0},      {Precision::kFloat32, 16, 32, 1, 4, 0, 0},
                            {Precision::kBfloat16, 16, 32, 2, 4, 0, 0},    {Precision::kBfloat16, 16, 32, 2, 16, 0, 0},
                            {Precision::kInt8, 16, 32, 4, 4, 0, 4},        {Precision::kInt8, 16, 32, 4, 16, 0, 32},
                            {Precision::kInt8, 8, 16, 4, 4, 0, 4, 1, true}};
  for (const Format& format : formats)
    for (int k : {1, 3, 4, 15, 16, 17, 33})
      for (int n : {1, 8, 15, 16, 17, 32, 33, 65})
        for (bool gated : {false, true})
          for (bool transposed : {false, true}) packed(format, k, n, gated, transposed);

  const float largest = 3.4028235e38f, nan = std::nanf("");
  check(ffn::to_bfloat16(1.0f) == 0x3f80 && ffn::to_bfloat16(-2.0f) == 0xc000, "bfloat16 of whole numbers");
  check(ffn::to_bfloat16(largest) == 0x7f80, "bfloat16 rounds the largest float32 to infinity");
  check((ffn::to_bfloat16(nan) & 0x7fff) > 0x7f80, "bfloat16 keeps NaN");
  check(ffn::to_bfloat16(1.00390625f) == 0x3f80 && ffn::to_bfloat16(1.01171875f) == 0x3f82, "ties go to even");
  return report();
}
