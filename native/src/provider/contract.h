// The contract of docs/functions.md: which nodes `ai.ffn_export::FeedForward*` the kernels serve.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "feed_forward.h"

namespace ffn {

constexpr const char* kDomain = "ai.ffn_export";
constexpr int kVersion = 1;  // of the domain: the contract of another version is not known

// The names that are registered: FeedForward and FeedForward_2 on, as --outline numbers the structures of a model. A
// node of a higher number runs by its body, and so does CustomFeedForward, of which only the body tells what it is.
std::vector<std::string> operator_names();

// An input of a node. Where only the shape is known yet, `data` is some address that is not read.
struct Tensor {
  const float* data = nullptr;
  std::vector<int64_t> shape;

  bool there() const { return data != nullptr; }
};

struct FeedForwardNode {
  std::string activation;
  bool has_alpha = false;
  float alpha = 0;
  int64_t packed = 0, transposed = 0;
  Tensor w1, b1, w2, b2, w3, b3;
};

// False where the node is left to its body: its shapes, activation or attributes are none that the kernels serve.
bool read(const FeedForwardNode& node, Precision precision, FeedForwardSpec& spec);

}  // namespace ffn
