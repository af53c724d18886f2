// A node of ONNX Runtime in the words of the contract.
#pragma once

#include "provider/contract.h"
#include "provider/ort.h"

namespace ffn {

// From a graph, when nodes are claimed: shapes alone, since reading a value makes the runtime copy it. False if the
// node is no feed-forward, its values are not float32, or a weight is no constant.
bool from_graph(const Ort::ConstNode& node, FeedForwardNode& to);

// From the information with which a kernel is made: with values, which are valid while the kernel is made.
FeedForwardNode from_kernel(const OrtKernelInfo* info);

}  // namespace ffn
