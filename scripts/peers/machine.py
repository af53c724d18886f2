"""Where a comparison ran."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import torch

import ffn_export as fx
from ffn_export.processor import flags
from ffn_export.runtimes import environment
from ffn_export.runtimes.environment import Environment

_TELLING = ("avx2", "fma", "avx512", "avx_vnni", "amx")


def current(threads: int) -> Environment:
    """Describe this machine, with the versions of what is compared."""
    here = environment.current(threads)
    return replace(here, versions={**here.versions, **environment.installed(("transformers", "matplotlib"))})


def revision() -> str:
    """Name what was measured: the commit, and whether files are changed in it; without git, the package's version."""
    command = ("git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--exclude", "*")
    done = subprocess.run(command, capture_output=True, text=True, check=False) if shutil.which("git") else None
    return done.stdout.strip() if done is not None and done.returncode == 0 else f"version {fx.__version__}"


def instruction_sets() -> str:
    """Return the processor's instructions that products are made of, and the level that PyTorch takes."""
    known = [flag for flag in flags() if flag.startswith(_TELLING)]
    return f"{' '.join(known) or 'not known'}; PyTorch uses {torch.backends.cpu.get_cpu_capability()}"
