"""Files of a few kilobytes that ask for endless time or memory end within the limits, with a result or one line."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fuzz.hostile import RECIPES
from tests.fuzz.judging import Worker

COMMANDS = {
    "inspect": ("inspect", "model.onnx"),
    "fuse": ("fuse", "model.onnx", "-o", "fused.onnx"),
    "verify": ("verify", "model.onnx", "--against", "model.onnx", "--threads", "1"),
}


# These take all of the time that they may: `make test` gives most to one command each, and two to none.
LONG = {
    "chain_of_relu": ("inspect",),
    "wide_fan": ("fuse",),
    "many_norms": ("verify",),
    "nested_if_wide": ("fuse",),
    "chain_of_casts": (),
    "chain_of_sums": (),
    "slow_product": ("fuse",),
    "growing_constant": ("fuse",),
    "growing_outer_products": ("fuse",),
    "function_chain": ("fuse",),
    "huge_attributes": ("fuse",),
    "endless_loop_before_a_site": ("fuse",),
    "huge_einsum": ("verify",),
    "growing_concat": ("verify",),
    "many_axes": ("verify",),
    "endless_stacking_loop": ("verify",),
}


def _cases() -> Iterator[object]:
    for name in RECIPES:
        if LONG.get(name):
            yield pytest.param(name, LONG[name], id=f"{name}-{LONG[name][0]}")
        yield pytest.param(name, tuple(COMMANDS), id=name, marks=[pytest.mark.exhaustive] if name in LONG else [])


# `make test` allows 1 s, to see that they end; the default is 10 s.
@pytest.mark.integration
@pytest.mark.parametrize("limit", [("--max-cpu", "1"), pytest.param((), marks=pytest.mark.exhaustive)], ids=" ".join)
@pytest.mark.parametrize(("name", "commands"), [*_cases()])
def test_a_hostile_file_ends_within_the_limits(
    worker: Worker, name: str, commands: tuple[str, ...], limit: tuple[str, ...]
) -> None:
    (worker.directory / "model.onnx").write_bytes(RECIPES[name]().SerializeToString())
    outcomes = [worker.ask(*COMMANDS[command], *limit) for command in commands]
    assert {each.arguments[0]: (each.faults(), each.output[-300:]) for each in outcomes if each.faults()} == {}


@pytest.mark.integration
@pytest.mark.parametrize("name", ["nested_if_deep", "endless_loop", "doubled_value"])
@pytest.mark.parametrize(
    "command", ["bench model.onnx --threads 1 --max-cpu 1", "quantize model.onnx --all -o quantized.onnx"]
)
def test_timing_or_quantizing_a_hostile_file_ends_too(worker: Worker, name: str, command: str) -> None:
    (worker.directory / "model.onnx").write_bytes(RECIPES[name]().SerializeToString())
    outcome = worker.ask(*command.split())
    assert (outcome.faults(), outcome.output[-300:]) == ([], outcome.output[-300:])
