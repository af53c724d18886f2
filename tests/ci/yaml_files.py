"""YAML as those read it who run it, and the schemas that are published for it."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]


def parse(text: str) -> Any:
    """Return the document; YAML 1.2, in which ``on`` is a string."""
    return YAML(typ="safe").load(io.StringIO(text))


def problems(file: Path, schema: str) -> str:
    """Return what a published schema has against a file, such as ``vendor.github-workflows``; empty: nothing."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr
