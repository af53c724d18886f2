// A processor with every instruction that is emulated. AVX2 is that of this machine.
#include "instruction_sets.h"

namespace ffn {

InstructionSets of_processor() {
  InstructionSets sets;
  __builtin_cpu_init();
  sets.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  sets.avx_vnni = sets.avx2;
  sets.avx512 = sets.bf16 = sets.fast_bf16 = sets.vnni = sets.amx = true;
  return sets;
}

// As on a processor of Intel's, whichever this is.
const Fetching& fetching() {
  static const Fetching here{1024, 4};
  return here;
}

}  // namespace ffn
