"""Each of torch's exports parses the source of its whole operator library; here once is enough."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import pytest
from torch.onnx._internal.exporter import _registration


@pytest.fixture(autouse=True, scope="session")
def parsed_once() -> Iterator[None]:
    original = _registration.ONNXRegistry.from_torchlib
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_registration.ONNXRegistry, "from_torchlib", staticmethod(functools.cache(original)))
        yield
