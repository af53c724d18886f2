"""Where a comparison ran."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import torch

import ffn_export as fx
from ffn_export.core.processor import flags
from ffn_export.runtimes import environment
from ffn_export.runtimes.environment import Environment

_TELLING = ("avx2", "fma", "avx512", "avx_vnni", "amx")


def current(threads: int) -> Environment:
    """Describe this machine, with the versions of what is compared."""
    here = environment.current(threads)
    return replace(here, versions={**here.versions, **environment.installed(("transformers", "matplotlib"))})


def revision() -> str:
    """Name what was measured: the commit, and whether code differs from it; without git, the package's version."""
    commit = _git("rev-parse", "--short", "HEAD")
    if commit is None:
        return f"version {fx.__version__}"
    return (
        commit if _git("diff", "--quiet", "HEAD", "--", "ffn_export", "scripts") is not None else f"{commit}, changed"
    )


def _git(*arguments: str) -> str | None:
    """Return what git says of this checkout, or None where it fails or is not there."""
    if shutil.which("git") is None:
        return None
    command = ("git", "-C", str(Path(__file__).parents[2]), *arguments)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def instruction_sets() -> str:
    """Return the processor's instructions that products are made of, and the level that PyTorch takes."""
    known = [flag for flag in flags() if flag.startswith(_TELLING)]
    return f"{' '.join(known) or 'not known'}; PyTorch uses {torch.backends.cpu.get_cpu_capability()}"
