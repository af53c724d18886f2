"""A public name that cannot be loaded says why."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

PACKAGE = """from ffn_export.core.lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A package with a module that is sound, and one that asks a library for a name that it lacks."""
    folder = tmp_path / "lazy_package"
    folder.mkdir()
    (folder / "__init__.py").write_text(PACKAGE)
    (folder / "__init__.pyi").write_text("from .broken import lost as lost\nfrom .sound import there as there\n")
    (folder / "broken.py").write_text("import math\n\nmath.gone\nlost = 1\n")
    (folder / "sound.py").write_text("there = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.startswith(folder.name)]:
        monkeypatch.delitem(sys.modules, name)
    return importlib.import_module(folder.name)


def test_a_module_that_fails_is_the_cause(package: ModuleType) -> None:
    for load in ("from lazy_package import lost", "import lazy_package; lazy_package.lost"):
        with pytest.raises(
            ImportError, match=r"^lazy_package\.lost cannot be loaded: .*'math' has no attribute 'gone'$"
        ):
            exec(load, {})
    with pytest.raises(ImportError) as caught:
        _ = package.lost
    assert isinstance(caught.value.__cause__, AttributeError)


def test_a_name_that_is_there_and_one_that_is_not(package: ModuleType) -> None:
    assert package.there == 1
    assert not hasattr(package, "other")
    assert dir(package) == ["lost", "there"]
