#include "instruction_sets.h"

#include <string>

namespace ffn {
namespace {

bool names(const char* allowed, const std::string& set) {
  if (!allowed) return true;
  return ("," + std::string(allowed) + ",").find("," + set + ",") != std::string::npos;
}

}  // namespace

// __builtin_cpu_supports also asks whether the operating system saves the registers.
InstructionSets instruction_sets(const char* allowed) {
  InstructionSets sets;
#if defined(__x86_64__)
  __builtin_cpu_init();
  sets.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && names(allowed, "avx2");
  sets.avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && names(allowed, "avx512");
  sets.bf16 = sets.avx512 && __builtin_cpu_supports("avx512bf16") && names(allowed, "bf16");
  sets.vnni = sets.avx512 && __builtin_cpu_supports("avx512vnni") && names(allowed, "vnni");
#else
  (void)allowed;
#endif
  return sets;
}

}  // namespace ffn
