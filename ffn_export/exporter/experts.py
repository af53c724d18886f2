"""Select the experts implementation of transformers that can be exported.

A mixture of experts in transformers loops over the chosen experts, or calls an operator for groups of tokens. Neither
can be translated. Its third implementation computes one product for each expert that a token goes to, with the same
result in any dtype.
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
    """Set that implementation in each configuration of a module, and restore the previous ones afterwards.

    ``transformers`` reads the configuration at each call, so a trace sees this setting.
    """
    found = {id(config): config for each in module.modules() for config in _nested(vars(each).get("config"))}
    # Setting a configuration also sets its sub-configurations, so set and restore these after it.
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
    """Yield a configuration and its sub-configurations that have the setting."""
    if hasattr(config, _SETTING):
        yield config
        for name in getattr(config, "sub_configs", ()):
            yield from _nested(getattr(config, name, None))
