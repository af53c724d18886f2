// Inputs that a call gives other shapes than each other, where the axis names of a graph say that they are equal.
//
// ONNX Runtime does not compare axis names with what is fed, so the nodes of the body would broadcast. Such inputs are
// written out in the shape that all have then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ffn {

using Shape = std::vector<int64_t>;

// An input of a node in a call. One that is left out is not given and has no axes; one of 0 elements may have no data,
// too. `written` holds what was written out.
struct Fed {
  const float* data = nullptr;
  Shape shape;
  bool given = false;
  std::vector<float> written = {};

  // Repeats the values along axes of size 1, and along new axes in front. The shape must broadcast to the other one.
  void expand(const Shape& to);
};

// Whether two shapes broadcast to one. If so, `a` becomes it.
bool broadcast(Shape& a, const Shape& b);

}  // namespace ffn
