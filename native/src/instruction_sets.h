// What this processor can run: cpuid once, less what an environment variable masks.
#pragma once

namespace ffn {

struct InstructionSets {
  bool avx2 = false;       // AVX2 and FMA
  bool avx512 = false;     // AVX-512 F, BW, DQ and VL
  bool bf16 = false;       // AVX-512 BF16, on top of avx512
  bool fast_bf16 = false;  // and its products take less time than those of FMA
  bool vnni = false;       // AVX-512 VNNI, on top of avx512
  bool avx_vnni = false;   // AVX-VNNI, on top of avx2
  bool amx = false;        // AMX for bfloat16 and 8-bit integers, on top of bf16 and vnni
};

InstructionSets of_processor();

// How this processor fetches weights fastest: kernels/product.h.
struct Fetching {
  int near = 0;     // bytes from what a tile of several panels reads to what it fetches; 0 to fetch the next panels
  int streams = 1;  // at most, in which the next panel is fetched
};
const Fetching& fetching();

// The sets of this processor that `allowed` names, separated by commas: avx2, avx_vnni, avx512, bf16, vnni, amx. Null
// allows all, and a name that is unknown allows nothing.
InstructionSets instruction_sets(const char* allowed);

// The variable whose value the provider passes as `allowed`, so that each path can be tested on one machine.
constexpr const char* kAllowedVariable = "ONNXRUNTIME_EP_FFN_INSTRUCTIONS";

}  // namespace ffn
