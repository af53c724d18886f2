"""A Ray cluster of node processes on this machine, and models for it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ffn_export.core.matrix_cell import Cell

MODULE = """
import os, signal
from pathlib import Path
import torch

ACTIVATIONS = [torch.nn.GELU, torch.nn.ReLU, torch.nn.SiLU, torch.nn.Tanh, torch.nn.Sigmoid]

def factory(number):
    def make():
        width, hidden = 4 + number % 12, 8 + number
        norm = [torch.nn.LayerNorm(width)] if number % 3 == 0 else []
        return torch.nn.Sequential(
            *norm, torch.nn.Linear(width, hidden), ACTIVATIONS[number % 5](), torch.nn.Linear(hidden, width)
        )
    return make

globals().update({f"ffn_{number}": factory(number) for number in range(60)})

def crash():
    with Path("crashes").open("a") as file:
        file.write(f"{os.getpid()}\\n")
    os.kill(os.getpid(), signal.SIGSEGV)

def told():
    import ray
    Path("assigned").write_text(str(ray.get_runtime_context().get_assigned_resources()))
    return torch.nn.Linear(4, 4)

def elsewhere():
    import ray
    from ffn_export.core import processor
    own = processor.Kind(processor.instruction_set(), processor.vendor(), processor.family())
    other = processor.Kind("avx2", "GenuineIntel", "6")
    is_other = "amd-25" in ray.get_runtime_context().get_assigned_resources()
    processor.kind = lambda: other if is_other else own
    torch.manual_seed(1)  # with 0, the luck of PyTorch's single row is a false alarm on Intel: docs/parity.md
    return torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.GELU(), torch.nn.Linear(64, 4))

def endless():
    Path("begun").touch()
    signal.pause()
"""


def model(number: int) -> dict[str, Any]:
    """Return a model of the module."""
    return {"spec": f"zoo:ffn_{number}", "inputs": [f"input:float32[batch,{4 + number % 12}]"]}


def special(name: str, **options: Any) -> dict[str, Any]:
    """Return a model that does something to its process."""
    return {"spec": f"zoo:{name}", "inputs": ["x:float32[batch,4]"], **options}


def toml(zoo: dict[str, Any]) -> str:
    """Return the file of a matrix."""
    tables = [{key: value for key, value in zoo.items() if key != "model"}, *zoo["model"]]
    return "[[model]]\n".join(
        "".join(f"{key} = {json.dumps(value)}\n" for key, value in each.items()) for each in tables
    )


def facts(cells: Sequence[Cell], without: str = "") -> dict[tuple[str, str, str], dict[str, Any]]:
    """Return what two runs must agree on, cell by cell."""
    loose = ("seconds", "sha256")  # a manifest has the date
    return {
        (cell.model, cell.target, cell.runtime): {
            name: value for name, value in cell.to_dict().items() if name not in loose
        }
        for cell in cells
        if cell.model != without
    }


@contextmanager
def started(*nodes: dict[str, Any]) -> Iterator[tuple[Any, list[Any]]]:
    """Start a cluster with a node process for each set of options; yield it with its nodes."""
    pytest.importorskip("ray", reason="the extra 'ray' is not installed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        from ray.cluster_utils import Cluster

        common = {"object_store_memory": 80 * 2**20, "include_dashboard": False}
        cluster = Cluster(initialize_head=True, head_node_args={**common, **nodes[0]})
        try:
            yield cluster, [cluster.head_node, *(cluster.add_node(**common, **options) for options in nodes[1:])]
        finally:
            cluster.shutdown()


def lines(directory: Path) -> list[str]:
    """Return the lines of the cells."""
    path = directory / "cells.jsonl"
    return path.read_text().splitlines() if path.is_file() else []


def environment() -> dict[str, str]:
    """Return the environment of a command that works on such a cluster."""
    return {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
