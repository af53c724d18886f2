"""Every public function and class has an example in its docstring, which runs.

Examples find the exported preset as ``model.onnx`` and its bundle as ``exported/d2l-ffn``.
"""

from __future__ import annotations

import doctest
import inspect
from pathlib import Path

import pytest

import ffn_export as fx
from docs_site.api import public
from ffn_export import testing
from ffn_export.core import onnx_file

PUBLIC = {name: getattr(fx, name) for names in public().values() for name in names}
OBJECTS = {**PUBLIC, "assert_parity": testing.assert_parity}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docstrings")
    onnx_file.save(fx.export("d2l-ffn"), folder / "model.onnx")
    fx.build("d2l-ffn", directory=folder / "exported", fast=True)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", OBJECTS)
def test_the_example_runs(name: str, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(files)
    text = inspect.getdoc(OBJECTS[name]) or ""
    example = doctest.DocTestParser().get_doctest(text, {"fx": fx}, name, None, None)
    assert example.examples, f"{name} has no example"
    told: list[str] = []
    assert doctest.DocTestRunner(verbose=False).run(example, out=told.append).failed == 0, "".join(told)


def test_every_public_name_is_a_function_or_a_class_but_a_mapping_and_an_alias() -> None:
    assert set(vars(fx)["__all__"]) - set(PUBLIC) == {"PRESETS", "Forms"}
