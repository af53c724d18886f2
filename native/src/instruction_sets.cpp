#include "instruction_sets.h"

#include <string>

namespace ffn {
namespace {

bool names(const char* allowed, const std::string& set) {
  if (!allowed) return true;
  return ("," + std::string(allowed) + ",").find("," + set + ",") != std::string::npos;
}

}  // namespace

InstructionSets instruction_sets(const char* allowed) {
  InstructionSets sets = of_processor();
  sets.avx2 = sets.avx2 && names(allowed, "avx2");
  sets.avx512 = sets.avx512 && names(allowed, "avx512");
  sets.bf16 = sets.bf16 && sets.avx512 && names(allowed, "bf16");
  sets.fast_bf16 = sets.fast_bf16 && sets.bf16;
  sets.vnni = sets.vnni && sets.avx512 && names(allowed, "vnni");
  sets.avx_vnni = sets.avx_vnni && sets.avx2 && names(allowed, "avx_vnni");
  sets.amx = sets.amx && sets.bf16 && sets.vnni && names(allowed, "amx");
  return sets;
}

}  // namespace ffn
