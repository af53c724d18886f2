"""Where a comparison ran."""

from __future__ import annotations

from dataclasses import replace

import torch

from ffn_export.processor import flags
from ffn_export.runtimes import environment
from ffn_export.runtimes.environment import Environment

_TELLING = ("avx2", "fma", "avx512", "avx_vnni", "amx")


def current(threads: int) -> Environment:
    """Describe this machine, with the versions of what is compared."""
    here = environment.current(threads)
    return replace(here, versions={**here.versions, **environment.installed(("transformers", "matplotlib"))})


def instruction_sets() -> str:
    """Return the processor's instructions that products are made of, and the level that PyTorch takes."""
    known = [flag for flag in flags() if flag.startswith(_TELLING)]
    return f"{' '.join(known) or 'not known'}; PyTorch uses {torch.backends.cpu.get_cpu_capability()}"
