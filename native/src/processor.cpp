// What this processor and its operating system offer.
#include "instruction_sets.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace ffn {
namespace {

// Linux saves the tiles of a process that has asked for it, once and for all its threads.
bool tiles_are_saved() {
#if defined(__x86_64__) && defined(__linux__)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // of asm/prctl.h, and of XCR0
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

#if defined(__x86_64__)
int family() {
  unsigned a = 0, b, c, d;
  __get_cpuid(1, &a, &b, &c, &d);
  return static_cast<int>((a >> 8 & 0xF) + (a >> 20 & 0xFF));  // as the makers add them up from 0xF on
}
#endif

}  // namespace

// __builtin_cpu_supports also asks whether the operating system saves the registers.
InstructionSets of_processor() {
  InstructionSets sets;
#if defined(__x86_64__)
  __builtin_cpu_init();
  sets.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  sets.avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  sets.bf16 = __builtin_cpu_supports("avx512bf16");
  // A core of AMD starts a VDPBF16PS of 32 products each cycle. One of Intel takes two cycles, and FMA four registers
  // of 16 products in them.
  sets.fast_bf16 = sets.bf16 && __builtin_cpu_is("amd");
  sets.vnni = __builtin_cpu_supports("avx512vnni");
  sets.avx_vnni = __builtin_cpu_supports("avxvnni");
  sets.amx = __builtin_cpu_supports("amx-tile") && __builtin_cpu_supports("amx-bf16") &&
             __builtin_cpu_supports("amx-int8") && tiles_are_saved();
#endif
  return sets;
}

// Decisions 39, 41 and 42 have the measurements.
const Fetching& fetching() {
  static const Fetching here = [] {
    Fetching found;
#if defined(__x86_64__)
    constexpr int kZen5 = 0x1A;
    if (__builtin_cpu_is("intel")) found = {1024, 4};
    if (__builtin_cpu_is("amd") && family() >= kZen5) found = {4096, 1};
#endif
    return found;
  }();
  return here;
}

}  // namespace ffn
