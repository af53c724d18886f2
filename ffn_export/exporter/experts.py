"""Experts of transformers, computed in the one of its ways that a graph can hold.

A mixture of experts in that library loops over the experts that were chosen, or calls an operator for groups of tokens:
no translation has either. Its third way is one product for each expert that a token goes to, with the same result, in
any dtype.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

IMPLEMENTATION = "batched_mm"
_SETTING = "_experts_implementation"


@contextlib.contextmanager
def as_products(module: torch.nn.Module) -> Iterator[None]:
    """Set each configuration in a module to that way, and back afterwards.

    ``transformers`` looks it up in the configuration at each call, so what is set here is what a trace sees.
    """
    found = {id(config): config for each in module.modules() for config in _nested(vars(each).get("config"))}
    # A configuration sets those inside it as well, so these are set after it.
    outer_first = sorted(found.values(), key=lambda config: -len(list(_nested(config))))
    before = [getattr(config, _SETTING) for config in outer_first]
    for config in outer_first:
        setattr(config, _SETTING, IMPLEMENTATION)
    try:
        yield
    finally:
        for config, implementation in zip(outer_first, before, strict=True):
            setattr(config, _SETTING, implementation)


def _nested(config: Any) -> Iterator[Any]:
    """Yield a configuration that has the setting, and those inside it."""
    if hasattr(config, _SETTING):
        yield config
        for name in getattr(config, "sub_configs", ()):
            yield from _nested(getattr(config, name, None))
