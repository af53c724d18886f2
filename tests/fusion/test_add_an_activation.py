"""``docs/add-an-activation.md``, followed in a copy of the package: the files that it names are enough."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "add-an-activation.md").read_text(encoding="utf-8")
USE = """
import json, sys
import numpy as np
import ffn_export as fx
from ffn_export.modules import FeedForward, GatedFeedForward, twin_of

inputs, found = {"x": "float32[batch,seq,16]"}, {}
for make, name in ((FeedForward, "logsigmoid"), (GatedFeedForward, "logsigmoid"), (FeedForward, "softsign")):
    module = make(16, 32, name, dropout=0.0).eval()
    fused, report = fx.fuse(fx.export(module, inputs), outline=True)
    x = np.random.default_rng(0).standard_normal((2, 3, 16), np.float32)
    verified = fx.verify(fused, module, inputs=inputs, samples={"x": x}, runtimes=["ort-cpu"], sweep=False)
    (site,), (node,), (body,) = report.sites, fused.graph, fused.functions.values()
    found[f"{make.__name__} {name}"] = {
        "site": [site.activation, site.status],
        "rules": sorted(report.rules),
        "node": [node.op_type, node.attributes["activation"].as_string()],
        "body": [each.op_type for each in body],
        "passed": verified.passed,
        "twin": list(twin_of(module)(x).shape),
    }
print(json.dumps(found))
"""


def follow(page: str, package: Path) -> None:
    """Put each block of code where the page says: a formula above the table, a record into it, a rule in its file."""
    table = package / "activations.py"
    text = table.read_text(encoding="utf-8")
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        if block.startswith("def "):
            text = text.replace("\n_ALL = (", f"\n{block}\n\n_ALL = (", 1)
        elif block.startswith("Activation("):
            name = block.split('"')[1]
            text = re.sub(rf' *Activation\("{name}".*\n', "", text)
            text = text.replace("\n)\nTABLE:", f"\n    {block.strip()},\n)\nTABLE:", 1)
        else:
            (name,) = re.findall(r"fusion/canonicalise/(\w+)\.py`; ", page)
            (package / "fusion" / "canonicalise" / f"{name}.py").write_text(block, encoding="utf-8")
    table.write_text(text, encoding="utf-8")


@pytest.mark.slow
def test_the_page_is_enough(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "ffn_export", tmp_path / "ffn_export", ignore=shutil.ignore_patterns("__pycache__"))
    follow(PAGE, tmp_path / "ffn_export")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", USE], cwd=tmp_path, env=environment, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    spelt = ["Neg", "Softplus", "Neg"]
    assert found["FeedForward logsigmoid"] == {
        "site": ["logsigmoid", "fused"],
        "rules": ["softplus"],
        "node": ["FeedForward", "logsigmoid"],
        "body": ["MatMul", "Add", *spelt, "MatMul", "Add"],
        "passed": True,
        "twin": [2, 3, 16],
    }
    assert found["GatedFeedForward logsigmoid"]["site"] == ["logsigmoid", "fused"]
    assert found["GatedFeedForward logsigmoid"]["body"] == ["MatMul", "MatMul", *spelt, "Mul", "MatMul"]
    assert found["FeedForward softsign"]["rules"] == ["softsign"]
    assert found["FeedForward softsign"]["node"] == ["FeedForward", "softsign"]
    assert found["FeedForward softsign"]["body"] == ["MatMul", "Add", "Softsign", "MatMul", "Add"]
    assert all(each["passed"] for each in found.values())
