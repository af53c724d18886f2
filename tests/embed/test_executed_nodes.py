"""What runs is what was measured: under a bundle's own options the nodes of its file, in Python and every example."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

from ffn_export.runtimes.session_options import STOP_REFUSING, Level, SessionSettings
from tests.embed.bundles import FORMS, NAMES, executed_in_python, with_identity, with_options
from tests.embed.programs import Program

pytestmark = pytest.mark.slow

MEASURED = ["MatMul", "Add", "Gelu", "MatMul", "Add", "Add", "LayerNormalization"]
REFUSED = ["MatMul", "BiasGelu", "MatMul", "SkipLayerNormalization"]

NO_ENTRIES = SessionSettings("all", {})
"""What a program runs that does not apply the options of a bundle, which is ONNX Runtime's own default."""


@pytest.mark.parametrize("name", NAMES)
def test_python_runs_the_nodes_of_the_file(bundle: Callable[[str], Path], name: str) -> None:
    graph = onnx.load(bundle(name) / "model.onnx", load_external_data=False).graph
    assert sorted(executed_in_python(bundle(name))) == sorted(node.op_type for node in graph.node)


def test_without_the_options_python_runs_others(bundle: Callable[[str], Path], tmp_path: Path) -> None:
    assert executed_in_python(bundle("plain")) == MEASURED
    assert executed_in_python(with_options(bundle("plain"), tmp_path / "copy", NO_ENTRIES)) == REFUSED


@pytest.mark.integration
@pytest.mark.parametrize("name", NAMES)
def test_an_example_runs_the_nodes_that_were_measured(
    program: Program, bundle: Callable[[str], Path], tmp_path: Path, name: str
) -> None:
    assert program.executed(bundle(name), tmp_path) == executed_in_python(bundle(name))


@pytest.mark.integration
@pytest.mark.parametrize(("name", "operator"), list(zip(FORMS, ("Loop", "MatMulNBits"), strict=True)))
def test_an_example_runs_what_tuning_may_choose(
    program: Program, bundle: Callable[[str], Path], tmp_path: Path, name: str, operator: str
) -> None:
    executed = program.executed(bundle(name), tmp_path, "--tolerance", "0.05")
    assert executed == executed_in_python(bundle(name))
    assert operator in executed


@pytest.mark.integration
@pytest.mark.parametrize(("entries", "operators"), [(STOP_REFUSING, MEASURED), ({}, REFUSED)], ids=["given", "none"])
def test_an_example_applies_the_config_entries(
    program: Program, bundle: Callable[[str], Path], tmp_path: Path, entries: dict[str, str], operators: list[str]
) -> None:
    changed = with_options(bundle("plain"), tmp_path / "copy", SessionSettings("all", entries))
    assert executed_in_python(changed) == operators
    assert program.executed(changed, tmp_path) == operators


@pytest.mark.integration
def test_an_example_applies_the_level(program: Program, bundle: Callable[[str], Path], tmp_path: Path) -> None:
    """Each level makes something else of this model; the highest is that of the test above."""
    model = with_identity(bundle("plain"), tmp_path / "model")
    seen = {}
    levels: tuple[Level, ...] = ("disable_all", "basic", "extended")
    for level in levels:
        changed = with_options(model, tmp_path / level, SessionSettings(level, {}))
        seen[level] = program.executed(changed, tmp_path / level)
        assert seen[level] == executed_in_python(changed)
    assert seen == {"disable_all": [*MEASURED, "Identity"], "basic": MEASURED, "extended": REFUSED}
