"""Families of tests that are all run by `make exhaustive`, and in part by `make test`."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest

# One of each kind: plain and gated, with each norm, with a residual, of convolutions.
USUAL = ("d2l-ffn-addnorm", "bert-ffn", "llama-ffn", "t5-ffn", "nlp-transformers-conv")


def some_of_them(presets: Iterable[str], but: Collection[str] = ()) -> list[Any]:
    """Return presets as parameters, of which `make test` takes one of each kind, but for those that are named."""
    usual = [each for each in USUAL if each not in but]
    return [pytest.param(each, marks=[] if each in usual else pytest.mark.exhaustive) for each in presets]
