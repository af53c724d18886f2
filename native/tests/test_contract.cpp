// Which nodes are read as a feed-forward, linear or attention, how, and which are left to their bodies.
#include <cmath>

#include "check.h"
#include "provider/contract.h"
#include "reference.h"

namespace {

using namespace test;
using ffn::AttentionSpec;
using ffn::FeedForwardSpec;
using ffn::Input;
using ffn::LinearSpec;
using ffn::Node;
using ffn::NormPlace;

const float memory[64] = {};

Input constant(int at, std::vector<int64_t> shape) { return {true, true, std::move(shape), memory + at}; }
const Input kLeftOut, kFed{true, false, {}, nullptr};

// x, w1, b1, w2, b2, w3, b3, residual, norm_scale, norm_bias: relu(x W1 + b1) W2 + b2 of 3, 4 and 5 columns.
Node plain() {
  Node node;
  node.strings["activation"] = "relu";
  node.inputs.assign(10, kLeftOut);
  node.inputs[0] = kFed;
  node.inputs[1] = constant(0, {3, 4}), node.inputs[2] = constant(0, {4});
  node.inputs[3] = constant(20, {4, 5}), node.inputs[4] = constant(0, {5});
  return node;
}

// x, w, b, residual, norm_scale, norm_bias: x W + b of 3 and 6 columns.
Node linear() {
  Node node;
  node.inputs = {kFed, constant(0, {3, 6}), constant(0, {6}), kLeftOut, kLeftOut, kLeftOut};
  return node;
}

// query, key, value, bias: packed, four heads, two of keys.
Node attention() {
  Node node;
  node.inputs = {kFed};
  node.ints = {{"num_heads", 4}, {"kv_num_heads", 2}, {"causal", 1}};
  node.floats["scale"] = 0.5f;
  return node;
}

void give_norm(Node& node, const char* name, int64_t width, bool bias = true) {
  const size_t scale = node.inputs.size() - 2;
  node.strings["norm"] = name;
  node.floats["epsilon"] = 1e-5f;
  node.inputs[scale] = constant(0, {width});
  if (bias) node.inputs[scale + 1] = constant(8, {width});
}

template <class Spec>
bool taken(const Node& node) {
  Spec spec;
  return ffn::read(node, spec);
}

template <class Spec, class Change>
void left(Node node, const char* what, const Change& change) {
  check(taken<Spec>(node), std::string("taken without ") + what);
  change(node);
  check(!taken<Spec>(node), std::string("left to its body: ") + what);
}

void read_as_written() {
  FeedForwardSpec spec;
  check(ffn::read(plain(), spec), "a plain feed-forward is taken");
  check(spec.w1.rows == 3 && spec.w1.columns == 4 && spec.w2.columns == 5 && !spec.w3, "with its shapes");
  check(spec.norm_place == NormPlace::kNone, "and no norm");

  Node node = plain();
  node.inputs[2] = node.inputs[4] = kLeftOut;
  node.inputs.resize(5);
  check(ffn::read(node, spec) && !spec.b1 && !spec.b2, "biases are optional");

  node = plain();
  node.ints["transposed"] = 1;
  node.inputs[1].shape = {4, 3}, node.inputs[3].shape = {5, 4};
  check(ffn::read(node, spec), "transposed weights are taken");
  check(spec.w1.row_stride == 1 && spec.w1.column_stride == 3 && spec.w1.rows == 3, "and read in their order");

  node = plain();
  node.strings["activation"] = "silu", node.floats["alpha"] = 1;
  node.inputs[5] = constant(40, {3, 4}), node.inputs[6] = constant(0, {4});
  check(ffn::read(node, spec) && spec.w3 && spec.activation == Activation::kSwish, "gated");

  for (int packed : {1, 2}) {
    node = plain();
    node.ints["packed"] = packed;
    node.inputs[1].shape = {3, 8}, node.inputs[2].shape = {8};
    check(ffn::read(node, spec) && spec.w1.columns == 4 && spec.w3.columns == 4, "packed");
    const int activated = packed == 1 ? 0 : 4;
    check(spec.w1.data == memory + activated && spec.w3.data == memory + 4 - activated, "the activated half");
    check(spec.b1 == memory + activated && spec.b3 == memory + 4 - activated, "and its bias");
    check(spec.w1.row_stride == 8, "columns of the wider matrix");
  }

  node = plain();
  node.vectors = {{"smoothing", {1, 2, 4}}, {"hidden_smoothing", {1, 2, 4, 8}}};
  check(ffn::read(node, spec) && spec.w1.smoothing[2] == 4 && spec.w2.smoothing[3] == 8, "factors of both products");
  node.inputs[5] = constant(40, {3, 4});
  check(ffn::read(node, spec) && spec.w3.smoothing == spec.w1.smoothing, "and of the second factor of a gate");

  node = plain();
  node.inputs[ffn::kResidualOfFeedForward] = kFed;
  give_norm(node, "post_layer", 5);
  check(ffn::read(node, spec) && spec.norm_place == NormPlace::kPost, "a norm behind");
  check(spec.norm.width == 5 && !spec.norm.rms && spec.norm.bias == memory + 8, "over the result");
  node = plain();
  give_norm(node, "pre_rms", 3, false);
  check(ffn::read(node, spec) && spec.norm_place == NormPlace::kPre, "a norm before");
  check(spec.norm.width == 3 && spec.norm.rms && !spec.norm.bias, "over the input");
}

void linear_as_written() {
  LinearSpec spec;
  check(ffn::read(linear(), spec) && spec.splits == std::vector<int>{6}, "one result");
  Node node = linear();
  node.lists["splits"] = {1, 3, 2};
  node.outputs = 3;
  give_norm(node, "pre_layer", 3);
  check(ffn::read(node, spec) && spec.splits == std::vector<int>({1, 3, 2}), "three results");
  node = linear();
  node.inputs[ffn::kResidualOfLinear] = kFed;
  give_norm(node, "post_rms", 6, false);
  check(ffn::read(node, spec) && spec.norm.width == 6, "a residual and a norm");
}

void attention_as_written() {
  AttentionSpec spec;
  check(ffn::read(attention(), spec) && spec.heads == 4 && spec.groups == 2 && spec.causal, "packed attention");
  ffn::Attention a{};
  check(ffn::fit(spec, {{2, 7, 24}, {}, {}, {}}, a).empty() && a.size == 3 && a.keys == 7 && a.key_stride == 24,
        "sizes of packed attention");
  spec.causal = false;
  check(ffn::fit(spec, {{2, 7, 12}, {2, 9, 6}, {2, 9, 6}, {1, 4, 1, 9}}, a).empty() && a.size == 3 && a.keys == 9,
        "sizes of separate keys");
  check(a.bias_batch == 0 && a.bias_head == 9 && a.bias_query == 0 && a.bias_key == 1, "strides of a bias");
  check(!ffn::fit(spec, {{2, 7, 25}, {}, {}, {}}, a).empty(), "a width that heads do not divide");
  check(!ffn::fit(spec, {{2, 7, 12}, {2, 9, 12}, {2, 9, 12}, {}}, a).empty(), "heads of other sizes");
  check(!ffn::fit(spec, {{2, 7, 12}, {2, 9, 6}, {2, 8, 6}, {}}, a).empty(), "values of another length");
  check(!ffn::fit(spec, {{2, 7, 12}, {1, 9, 6}, {1, 9, 6}, {}}, a).empty(), "keys of another batch");
  check(!ffn::fit(spec, {{7, 24}, {}, {}, {}}, a).empty(), "two axes");
  check(!ffn::fit(spec, {{2, 7, 24}, {}, {}, {1, 1, 7}}, a).empty(), "a bias of three axes");
  check(!ffn::fit(spec, {{2, 7, 24}, {}, {}, {1, 1, 7, 3}}, a).empty(), "a bias that does not broadcast");
  spec.causal = true;
  check(!ffn::fit(spec, {{2, 7, 12}, {2, 9, 6}, {2, 9, 6}, {}}, a).empty(), "a causal mask over more keys");
}

void others_are_left() {
  using F = FeedForwardSpec;
  left<F>(plain(), "a factor too few", [](auto& n) { n.vectors["smoothing"] = {1, 2}; });
  left<F>(plain(), "a factor too many", [](auto& n) { n.vectors["hidden_smoothing"] = {1, 2, 3, 4, 5}; });
  for (const float bad : {0.0f, -1.0f, 1e-9f, 1e9f, std::nanf("")})
    left<F>(plain(), "a factor that is none", [=](auto& n) { n.vectors["smoothing"] = {1, bad, 1}; });
  left<LinearSpec>(linear(), "a factor of another size", [](auto& n) { n.vectors["smoothing"] = {1}; });
  left<F>(plain(), "an activation without a name", [](auto& n) { n.strings["activation"] = "other"; });
  left<F>(plain(), "no activation", [](auto& n) { n.strings.clear(); });
  left<F>(plain(), "alpha that is missing", [](auto& n) { n.strings["activation"] = "silu"; });
  left<F>(plain(), "alpha that is not expected", [](auto& n) { n.floats["alpha"] = 1; });
  left<F>(plain(), "no first weight", [](auto& n) { n.inputs[1] = kLeftOut; });
  left<F>(plain(), "a weight that is fed", [](auto& n) { n.inputs[3] = kFed; });
  left<F>(plain(), "a bias that is fed", [](auto& n) { n.inputs[2] = kFed; });
  left<F>(plain(), "weights of three axes", [](auto& n) { n.inputs[1].shape = {1, 3, 4}; });
  left<F>(plain(), "an axis of no known size", [](auto& n) { n.inputs[1].shape = {3, -1}; });
  left<F>(plain(), "an empty axis", [](auto& n) { n.inputs[1].shape = {0, 4}; });
  left<F>(plain(), "products that do not fit", [](auto& n) { n.inputs[3].shape = {6, 5}; });
  left<F>(plain(), "a bias of another size", [](auto& n) { n.inputs[2].shape = {1}; });
  left<F>(plain(), "a bias of two axes", [](auto& n) { n.inputs[4].shape = {1, 5}; });
  left<F>(plain(), "a factor of another size", [](auto& n) { n.inputs[5] = constant(0, {3, 6}); });
  left<F>(plain(), "the bias of no factor", [](auto& n) { n.inputs[6] = constant(0, {4}); });
  left<F>(plain(), "packed with a factor of its own", [](auto& n) {
    n.ints["packed"] = 1, n.inputs[1].shape = {3, 8}, n.inputs[2] = kLeftOut, n.inputs[5] = constant(0, {3, 4});
  });
  left<F>(plain(), "packed with an odd width", [](auto& n) { n.ints["packed"] = 1, n.inputs[1].shape = {3, 7}; });
  left<F>(plain(), "an unknown way to pack", [](auto& n) { n.ints["packed"] = 3, n.inputs[1].shape = {3, 8}; });
  left<F>(plain(), "an unknown order", [](auto& n) { n.ints["transposed"] = 2; });
  left<F>(plain(), "more inputs", [](auto& n) { n.inputs.push_back(kFed); });
  left<F>(plain(), "an unknown norm", [](auto& n) { give_norm(n, "pre_group", 3); });
  left<F>(plain(), "a norm without a scale", [](auto& n) { n.strings["norm"] = "pre_layer", n.floats["epsilon"] = 1; });
  left<F>(plain(), "a norm without epsilon", [](auto& n) { give_norm(n, "pre_layer", 3), n.floats.clear(); });
  left<F>(plain(), "a norm of another width", [](auto& n) { give_norm(n, "pre_layer", 5); });
  left<F>(plain(), "a scale of no norm", [](auto& n) { n.inputs[8] = constant(0, {3}); });
  left<F>(plain(), "RMSNorm with a bias", [](auto& n) { give_norm(n, "pre_rms", 3); });

  using L = LinearSpec;
  left<L>(linear(), "splits of another sum", [](auto& n) { n.lists["splits"] = {2, 3}, n.outputs = 2; });
  left<L>(linear(), "an empty split", [](auto& n) { n.lists["splits"] = {0, 6}, n.outputs = 2; });
  left<L>(linear(), "fewer outputs than splits", [](auto& n) { n.lists["splits"] = {2, 4}; });
  left<L>(linear(), "more outputs than one", [](auto& n) { n.outputs = 2; });
  left<L>(linear(), "a residual of splits", [](auto& n) { n.lists["splits"] = {6}, n.inputs[3] = kFed; });
  left<L>(linear(), "a norm behind splits", [](auto& n) { n.lists["splits"] = {6}, give_norm(n, "post_layer", 6); });
  left<L>(linear(), "a weight that is fed", [](auto& n) { n.inputs[1] = kFed; });

  using A = AttentionSpec;
  left<A>(attention(), "heads that do not share", [](auto& n) { n.ints["kv_num_heads"] = 3; });
  left<A>(attention(), "no heads", [](auto& n) { n.ints.erase("num_heads"); });
  left<A>(attention(), "no scale", [](auto& n) { n.floats.clear(); });
  left<A>(attention(), "keys without values", [](auto& n) { n.inputs.push_back(kFed); });
  left<A>(attention(), "another causal mask", [](auto& n) { n.ints["causal"] = 2; });
}

void precisions() {
  const auto of = [](const char* named, Precision asked) {
    Node node = linear();
    if (*named) node.strings["precision"] = named;
    Precision found;
    return ffn::read_precision(node, asked, found) ? found : static_cast<Precision>(-1);
  };
  check(of("", Precision::kInt8) == Precision::kInt8, "a node takes the session's precision");
  check(of("bf16", Precision::kInt8) == Precision::kBfloat16, "or its own, where it is more precise");
  check(of("bf16", Precision::kFloat32) == Precision::kFloat32, "and the session's where that is");
  Node other = linear();
  check(ffn::serves(ffn::Kind::kLinear, other), "served without a precision of its own");
  other.strings["precision"] = "f16";
  check(!ffn::serves(ffn::Kind::kLinear, other), "left to its body: a precision that is none");
}

}  // namespace

int main() {
  precisions();
  read_as_written();
  linear_as_written();
  attention_as_written();
  others_are_left();
  const auto& names = ffn::operator_names();
  check(names.count("FeedForward") && names.count("Linear_2") && names.count("Attention_64"), "names with numbers");
  check(!names.count("Linear_1") && !names.count("Linear_65"), "and no others");
  check(ffn::is_weight(ffn::Kind::kFeedForward, 8) && !ffn::is_weight(ffn::Kind::kFeedForward, 7),
        "a residual is kept");
  return report();
}
