#include "provider/broadcast.h"

namespace ffn {

bool broadcast(Shape& a, const Shape& b) {
  if (b.size() > a.size()) a.insert(a.begin(), b.size() - a.size(), 1);
  for (std::size_t axis = 0, ahead = a.size() - b.size(); axis < b.size(); axis++) {
    int64_t& length = a[ahead + axis];
    if (length != b[axis] && length != 1 && b[axis] != 1) return false;
    if (length == 1) length = b[axis];
  }
  return true;
}

void Fed::expand(const Shape& to) {
  shape.insert(shape.begin(), to.size() - shape.size(), 1);
  if (shape == to) return;
  int64_t count = 1;
  for (const int64_t length : to) count *= length;
  written.resize(static_cast<std::size_t>(count));
  for (int64_t i = 0; i < count; i++) {
    int64_t from = 0, stride = 1, rest = i;
    for (std::size_t axis = to.size(); axis-- > 0; rest /= to[axis]) {
      if (shape[axis] != 1) from += rest % to[axis] * stride;
      stride *= shape[axis];
    }
    written[static_cast<std::size_t>(i)] = data[from];
  }
  data = written.data();
  shape = to;
}

}  // namespace ffn
