#include "provider/contract.h"

#include <map>

namespace ffn {
namespace {

constexpr int kNames = 64;
constexpr int64_t kWidest = int64_t{1} << 24;
constexpr int64_t kWidestInt8 = int64_t{1} << 16;  // 255 * 127 * 2^16 is the last that 32 bits hold

struct Named {
  Activation activation;
  bool takes_alpha;
};

const std::map<std::string, Named>& activations() {
  static const std::map<std::string, Named> table = {
      {"relu", {Activation::kRelu, false}},           {"relu2", {Activation::kRelu2, false}},
      {"gelu", {Activation::kGelu, false}},           {"gelu_tanh", {Activation::kGeluTanh, false}},
      {"silu", {Activation::kSwish, true}},           {"quick_gelu", {Activation::kSwish, true}},
      {"swish", {Activation::kSwish, true}},          {"mish", {Activation::kMish, false}},
      {"hardswish", {Activation::kHardSwish, false}}, {"tanh", {Activation::kTanh, false}},
      {"sigmoid", {Activation::kSigmoid, false}},     {"elu", {Activation::kElu, true}},
      {"leaky_relu", {Activation::kLeakyRelu, true}}, {"softplus", {Activation::kSoftplus, false}},
      {"softsign", {Activation::kSoftsign, false}},
  };
  return table;
}

bool matrix(const Tensor& t, bool transposed, Matrix& to) {
  if (!t.there() || t.shape.size() != 2) return false;
  for (int64_t size : t.shape)
    if (size < 1 || size > kWidest) return false;
  const int rows = static_cast<int>(t.shape[0]), columns = static_cast<int>(t.shape[1]);
  to = transposed ? Matrix{t.data, columns, rows, 1, columns} : Matrix{t.data, rows, columns, columns, 1};
  return true;
}

bool bias(const Tensor& t, int64_t size) { return !t.there() || (t.shape.size() == 1 && t.shape[0] == size); }

}  // namespace

std::vector<std::string> operator_names() {
  std::vector<std::string> names = {"FeedForward"};
  for (int i = 2; i <= kNames; i++) names.push_back("FeedForward_" + std::to_string(i));
  return names;
}

bool read(const FeedForwardNode& node, Precision precision, FeedForwardSpec& spec) {
  const auto named = activations().find(node.activation);
  if (named == activations().end() || named->second.takes_alpha != node.has_alpha) return false;
  if (node.packed < 0 || node.packed > 2 || node.transposed < 0 || node.transposed > 1) return false;

  spec = {};
  spec.activation = named->second.activation;
  spec.alpha = node.alpha;
  const bool transposed = node.transposed == 1;
  if (!matrix(node.w1, transposed, spec.w1) || !matrix(node.w2, transposed, spec.w2)) return false;
  if (!bias(node.b1, spec.w1.columns) || !bias(node.b2, spec.w2.columns)) return false;
  spec.b1 = node.b1.data;
  spec.b2 = node.b2.data;

  if (node.packed) {  // one matrix holds both projections, side by side
    if (node.w3.there() || node.b3.there() || spec.w1.columns % 2) return false;
    const int half = spec.w1.columns / 2, first = node.packed == 1 ? 0 : half;
    const Matrix both = spec.w1;
    spec.w1 = both.part(first, half);
    spec.w3 = both.part(half - first, half);
    if (node.b1.there()) {
      spec.b1 = node.b1.data + first;
      spec.b3 = node.b1.data + half - first;
    }
  } else if (node.w3.there()) {
    if (!matrix(node.w3, transposed, spec.w3) || !bias(node.b3, spec.w3.columns)) return false;
    if (spec.w3.rows != spec.w1.rows || spec.w3.columns != spec.w1.columns) return false;
    spec.b3 = node.b3.data;
  } else if (node.b3.there()) {
    return false;
  }
  if (spec.w2.rows != spec.w1.columns) return false;
  return precision != Precision::kInt8 || (spec.w1.rows <= kWidestInt8 && spec.w2.rows <= kWidestInt8);
}

}  // namespace ffn
