"""Naming a preset, or using the NumPy twin, must not cost the import of torch."""

from __future__ import annotations

import subprocess
import sys

import pytest

import ffn_export.modules


@pytest.mark.parametrize(
    "statement",
    [
        "import ffn_export.modules",
        "import ffn_export.modules.presets",
        "import ffn_export.modules.numpy_twin",
        "from ffn_export.modules import PRESETS, FeedForwardConfig, get_preset; get_preset('bert-ffn')",
    ],
)
def test_import_leaves_torch_alone(statement: str) -> None:
    code = f"{statement}\nimport sys; sys.exit(3 if 'torch' in sys.modules else 0)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_numpy_twin_needs_nothing_but_numpy() -> None:
    code = (
        "import sys, numpy; before = set(sys.modules)\n"
        "import ffn_export.modules.numpy_twin\n"
        "new = {name for name in set(sys.modules) - before if name.startswith('ffn_export')}\n"
        "sys.exit(' '.join(sorted(new)))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    loaded = set(done.stderr.split())
    assert "ffn_export.modules.numpy_twin" in loaded
    # The packages on the way to it and the table of activations, and nothing of the torch side.
    modules = {name for name in loaded if name.count(".") == 2}
    assert modules == {
        "ffn_export.modules.numpy_twin",
        "ffn_export.core.activations",
        "ffn_export.core.formula",
        "ffn_export.core.lazy",
        "ffn_export.core.words",
    }


def test_every_public_name_is_there() -> None:
    for name in dir(ffn_export.modules):
        assert getattr(ffn_export.modules, name) is not None
    with pytest.raises(AttributeError, match="FeedForwards"):
        ffn_export.modules.FeedForwards  # type: ignore[attr-defined]  # noqa: B018
