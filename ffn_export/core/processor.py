"""This machine's processor: its name, and the vector instructions by which a runtime chooses its kernels."""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")  # Linux's description of the processors; other systems have none
# Widest first, with the flags that kernels of ONNX Runtime ask for.
_X86 = (
    ("avx512", frozenset({"avx512f", "avx512bw", "avx512dq", "avx512vl"})),
    ("avx2", frozenset({"avx2", "fma"})),
    ("avx", frozenset({"avx"})),
)
_ARM64 = frozenset({"aarch64", "arm64"})


@cache
def instruction_set(cpuinfo: Path = CPUINFO, machine: str | None = None) -> str:
    """Return ``avx512``, ``avx2``, ``avx`` or ``neon``; where that is not known, the machine's name in lower case.

    Args:
        cpuinfo: Where Linux describes the processors.
        machine: The architecture's name; by default this machine's.
    """
    name = (machine or platform.machine()).lower()
    if name in _ARM64:  # 64-bit Arm always has it
        return "neon"
    has = frozenset(flags(cpuinfo))
    return next((known for known, needed in _X86 if needed <= has), name)


def flags(cpuinfo: Path = CPUINFO) -> tuple[str, ...]:
    """Return what instructions Linux names; none where it does not tell."""
    return tuple((_described(cpuinfo, "flags") or _described(cpuinfo, "Features")).split())


def vendor(cpuinfo: Path = CPUINFO, described: str | None = None) -> str:
    """Return who made the processor, as it says itself (``GenuineIntel``, ``AuthenticAMD``); empty where nobody tells.

    Args:
        cpuinfo: Where Linux describes the processors.
        described: What Python knows of the processor, which on Windows ends with that name.
    """
    known = platform.processor() if described is None else described
    return _described(cpuinfo, "vendor_id") or (known.rpartition(", ")[2] if ", " in known else "")


def family(cpuinfo: Path = CPUINFO, described: str | None = None) -> str:
    """Return the number of the processor's family, which with AMD is its generation; empty where nobody tells.

    Args:
        cpuinfo: Where Linux describes the processors.
        described: What Python knows of the processor, which on Windows has ``Family`` and the number.
    """
    known = platform.processor() if described is None else described
    return _described(cpuinfo, "cpu family") or known.partition(" Family ")[2].partition(" ")[0]


def processor_name(cpuinfo: Path = CPUINFO) -> str:
    """Return the model's name as Linux tells it, else what Python knows."""
    return _described(cpuinfo, "model name") or platform.processor() or "unknown"


def _described(cpuinfo: Path, field: str) -> str:
    """Return a field of the first processor that has it; empty where none has."""
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.partition(":")[0].strip() == field), "")
