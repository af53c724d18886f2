// The least of a test framework: checks that count, and a last line that says how many.
#pragma once

#include <cstdio>
#include <string>

namespace test {

inline int passed = 0, failed = 0;

inline void check(bool holds, const std::string& what) {
  (holds ? passed : failed)++;
  if (!holds) std::fprintf(stderr, "FAILED: %s\n", what.c_str());
}

inline int report() {
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed != 0;
}

}  // namespace test
