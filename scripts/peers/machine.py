"""Where a comparison ran."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from ffn_export.runtimes import environment
from ffn_export.runtimes.environment import Environment

_TELLING = ("avx2", "fma", "avx512", "avx_vnni", "amx")


def current(threads: int) -> Environment:
    """Describe this machine, with the versions of what is compared."""
    here = environment.current(threads)
    return replace(here, versions={**here.versions, **environment.installed(("transformers", "matplotlib"))})


def instruction_sets(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Return the processor's instructions that products are made of, and the level that PyTorch takes."""
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        lines = []
    flags = next((line.partition(":")[2].split() for line in lines if line.startswith(("flags", "Features"))), [])
    known = [flag for flag in flags if flag.startswith(_TELLING)]
    return f"{' '.join(known) or 'not known'}; PyTorch uses {torch.backends.cpu.get_cpu_capability()}"
