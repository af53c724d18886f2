"""The contract is the one that the kernels read, and that the page describes."""

from __future__ import annotations

import re
from pathlib import Path

from ffn_export.core.activations import TABLE
from ffn_export.fusion.functions.contract import DOMAIN, KINDS, VERSION

ROOT = Path(__file__).parents[3]
SOURCE = (ROOT / "native/src/provider/contract.cpp").read_text()
HEADER = (ROOT / "native/src/provider/contract.h").read_text()
PAGE = (ROOT / "docs/functions.md").read_text()


def test_the_kernels_know_the_same_names() -> None:
    assert f'kDomain = "{DOMAIN}"' in HEADER
    assert f"kVersion = {VERSION};" in HEADER
    for kind in KINDS.values():
        assert f'{{"{kind.name}", Kind::' in SOURCE
        assert f"// {', '.join(kind.inputs)}\n" in SOURCE
    own = set(re.findall(r'\{"(\w+)", Attribute::', SOURCE))
    assert own == {name for kind in KINDS.values() for name in kind.attributes}


def test_the_kernels_know_the_activations_that_nodes_name() -> None:
    own = dict(re.findall(r'\{"(\w+)", \{Activation::\w+, (true|false)\}\}', SOURCE))
    named = {name: str(each.alpha is not None).lower() for name, each in TABLE.items() if each.outlined}
    assert own == {**named, "swish": "true"}


def test_the_page_names_everything() -> None:
    assert f"version {VERSION}" in PAGE
    for kind in KINDS.values():
        for name in (kind.name, *kind.inputs, *kind.attributes):
            assert f"`{name}`" in PAGE, name
