// Which nodes are read as a feed-forward, how, and which are left to their bodies.
#include "check.h"
#include "provider/contract.h"
#include "reference.h"

namespace {

using namespace test;
using ffn::FeedForwardNode;
using ffn::FeedForwardSpec;

const float memory[64] = {};

// relu(x W1 + b1) W2 + b2 of 3, 4 and 5 columns.
FeedForwardNode plain() {
  FeedForwardNode node;
  node.activation = "relu";
  node.w1 = {memory, {3, 4}}, node.b1 = {memory, {4}}, node.w2 = {memory + 20, {4, 5}}, node.b2 = {memory, {5}};
  return node;
}

bool taken(const FeedForwardNode& node, Precision precision = Precision::kFloat32) {
  FeedForwardSpec spec;
  return ffn::read(node, precision, spec);
}

template <class Change>
void left(const char* what, const Change& change) {
  FeedForwardNode node = plain();
  change(node);
  check(!taken(node), std::string("left to its body: ") + what);
}

void read_as_written() {
  FeedForwardSpec spec;
  check(ffn::read(plain(), Precision::kInt8, spec), "a plain feed-forward is taken");
  check(spec.w1.rows == 3 && spec.w1.columns == 4 && spec.w2.columns == 5 && !spec.w3, "with its shapes");

  FeedForwardNode node = plain();
  node.b1 = node.b2 = {};
  check(ffn::read(node, Precision::kFloat32, spec) && !spec.b1 && !spec.b2, "biases are optional");

  node = plain();
  node.transposed = 1;
  node.w1.shape = {4, 3}, node.w2.shape = {5, 4};
  check(ffn::read(node, Precision::kFloat32, spec), "transposed weights are taken");
  check(spec.w1.row_stride == 1 && spec.w1.column_stride == 3 && spec.w1.rows == 3, "and read in their order");

  node = plain();
  node.activation = "silu", node.has_alpha = true, node.alpha = 1;
  node.w3 = {memory + 40, {3, 4}}, node.b3 = {memory, {4}};
  check(ffn::read(node, Precision::kFloat32, spec) && spec.w3 && spec.activation == Activation::kSwish, "gated");

  for (int packed : {1, 2}) {
    node = plain();
    node.packed = packed;
    node.w1.shape = {3, 8}, node.b1.shape = {8};
    check(ffn::read(node, Precision::kFloat32, spec) && spec.w1.columns == 4 && spec.w3.columns == 4, "packed");
    const int activated = packed == 1 ? 0 : 4;
    check(spec.w1.data == memory + activated && spec.w3.data == memory + 4 - activated, "the activated half");
    check(spec.b1 == memory + activated && spec.b3 == memory + 4 - activated, "and its bias");
    check(spec.w1.row_stride == 8, "columns of the wider matrix");
  }
}

void others_are_left() {
  left("an activation without a name", [](auto& n) { n.activation = "other"; });
  left("alpha that is missing", [](auto& n) { n.activation = "silu"; });
  left("alpha that is not expected", [](auto& n) { n.has_alpha = true; });
  left("no first weight", [](auto& n) { n.w1 = {}; });
  left("no second weight", [](auto& n) { n.w2 = {}; });
  left("weights of three axes", [](auto& n) { n.w1.shape = {1, 3, 4}; });
  left("an axis of no known size", [](auto& n) { n.w1.shape = {3, -1}; });
  left("an empty axis", [](auto& n) { n.w1.shape = {0, 4}; });
  left("products that do not fit", [](auto& n) { n.w2.shape = {6, 5}; });
  left("a bias of another size", [](auto& n) { n.b1.shape = {1}; });
  left("a bias of two axes", [](auto& n) { n.b2.shape = {1, 5}; });
  left("a factor of another size", [](auto& n) { n.w3 = {memory, {3, 6}}; });
  left("the bias of no factor", [](auto& n) { n.b3 = {memory, {4}}; });
  left("packed with a factor of its own", [](auto& n) { n.packed = 1, n.w1.shape = {3, 8}, n.w3 = {memory, {3, 4}}; });
  left("packed with an odd width", [](auto& n) { n.packed = 1, n.w1.shape = {3, 7}; });
  left("an unknown way to pack", [](auto& n) { n.packed = 3, n.w1.shape = {3, 8}; });
  left("an unknown order", [](auto& n) { n.transposed = 2; });

  FeedForwardNode wide = plain();
  wide.w1.shape = {65537, 4};
  check(taken(wide) && !taken(wide, Precision::kInt8), "sums of 8-bit integers have to fit 32 bits");
}

}  // namespace

int main() {
  read_as_written();
  others_are_left();
  const auto names = ffn::operator_names();
  check(names.front() == "FeedForward" && names[1] == "FeedForward_2", "names as --outline numbers them");
  return report();
}
