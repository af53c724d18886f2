// A node of ONNX Runtime in the words of the contract.
#pragma once

#include "provider/contract.h"
#include "provider/ort.h"

namespace ffn {

// From a graph, when nodes are claimed: without the data of constants, since reading a value makes the runtime copy it.
// False if the node is of another domain, version or name, its values are not float32, or it cannot be read.
bool from_graph(const Ort::ConstNode& node, Kind& kind, Node& to);

// From the information with which a kernel is made: with data, which is valid while the kernel is made.
Node from_kernel(const OrtKernelInfo* info);

}  // namespace ffn
