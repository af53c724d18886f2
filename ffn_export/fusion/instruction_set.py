"""Which vector instructions this processor has: a runtime chooses its kernels by them."""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")
# Widest first, with the flags that kernels of ONNX Runtime ask for.
_X86 = (
    ("avx512", frozenset({"avx512f", "avx512bw", "avx512dq", "avx512vl"})),
    ("avx2", frozenset({"avx2", "fma"})),
    ("avx", frozenset({"avx"})),
)
_ARM64 = frozenset({"aarch64", "arm64"})


@cache
def instruction_set(cpuinfo: Path = _CPUINFO, machine: str | None = None) -> str:
    """Return ``avx512``, ``avx2``, ``avx`` or ``neon``; where that is not known, the machine's name in lower case.

    Args:
        cpuinfo: Linux's description of the processors. Other systems have none.
        machine: The architecture's name; by default this machine's.
    """
    name = (machine or platform.machine()).lower()
    if name in _ARM64:  # 64-bit Arm always has it
        return "neon"
    flags = _flags(cpuinfo)
    return next((known for known, needed in _X86 if needed <= flags), name)


def _flags(cpuinfo: Path) -> frozenset[str]:
    """Return the flags of the first processor."""
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        return frozenset()
    return frozenset(next((line.partition(":")[2].split() for line in lines if line.startswith("flags")), ()))
