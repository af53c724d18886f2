"""Processor of this machine: name, vendor, family, and the vector instructions that decide a runtime's kernels."""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")  # exists on Linux only
# Widest first, with the flags that kernels of ONNX Runtime require.
_X86 = (
    ("avx512", frozenset({"avx512f", "avx512bw", "avx512dq", "avx512vl"})),
    ("avx2", frozenset({"avx2", "fma"})),
    ("avx", frozenset({"avx"})),
)
_ARM64 = frozenset({"aarch64", "arm64"})


@dataclass(frozen=True)
class Kind:
    """A kind of processor: the same forms are fast on all processors of a kind, as far as costs were measured.

    Attributes:
        instruction_set: Widest vector instructions that kernels use.
        vendor: Vendor that it reports; may be empty.
        family: Family number that it reports; may be empty.

    Examples:
        >>> print(Kind("avx512", "AuthenticAMD", "25"))
        avx512, AuthenticAMD family 25
    """

    instruction_set: str
    vendor: str = ""
    family: str = ""

    def __str__(self) -> str:
        """Return it in words."""
        maker = " family ".join(filter(None, (self.vendor, self.family)))
        return ", ".join(filter(None, (self.instruction_set, maker)))

    @property
    def label(self) -> str:
        """A part of a file name: ``avx512-AuthenticAMD-25``."""
        parts = (re.sub("[^A-Za-z0-9_]+", "", part) for part in (self.instruction_set, self.vendor, self.family))
        return "-".join(filter(None, parts))


def kind() -> Kind:
    """Return the kind of this machine's processor."""
    return Kind(instruction_set(), vendor(), family())


@cache
def instruction_set() -> str:
    """Return ``avx512``, ``avx2``, ``avx`` or ``neon``; if unknown, the architecture's name in lower case."""
    name = platform.machine().lower()
    if name in _ARM64:  # 64-bit Arm always has it
        return "neon"
    has = frozenset(flags())
    return next((known for known, needed in _X86 if needed <= has), name)


def flags() -> tuple[str, ...]:
    """Return the instruction flags listed by Linux; empty if there are none."""
    return tuple((_described("flags") or _described("Features")).split())


def vendor() -> str:
    """Return the vendor id of the processor (``GenuineIntel``, ``AuthenticAMD``); empty if unknown."""
    known = platform.processor()  # on Windows, it ends with the vendor id
    return _described("vendor_id") or (known.rpartition(", ")[2] if ", " in known else "")


def family() -> str:
    """Return the family number of the processor, which for AMD is its generation; empty if unknown."""
    known = platform.processor()  # on Windows, it has "Family" and the number
    return _described("cpu family") or known.partition(" Family ")[2].partition(" ")[0]


def processor_name() -> str:
    """Return the model name from Linux, otherwise from Python."""
    return _described("model name") or platform.processor() or "unknown"


def _described(field: str) -> str:
    """Return a field of the first processor that has it; empty if none has."""
    try:
        lines = CPUINFO.read_text().splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.partition(":")[0].strip() == field), "")
