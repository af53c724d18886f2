"""Reports know results, never how results are made: reading them must not load what makes them."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"torch", "onnxruntime", "onnx", "onnx_ir", "onnxscript", "numpy", "scipy", "matplotlib", "jinja2"}


@pytest.mark.parametrize("module", ["console", "tables", "json_report", "junit", "markdown", "sarif", "github", "html"])
def test_import_loads_nothing_heavy(module: str) -> None:
    code = f"import ffn_export.reports.{module}, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert not HEAVY & set(done.stdout.split())
