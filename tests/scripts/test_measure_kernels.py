"""The costs of kernels, measured in real sessions; no test says how fast anything is."""

from __future__ import annotations

import contextlib
import io
import json
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import measure_kernels
from executed import executed_kernels
from ffn_export.core.processor import family, instruction_set, vendor
from ffn_export.fusion.costs import costs, read_tables
from ffn_export.fusion.forms.by_rows.split_hidden import PARTS
from ffn_export.runtimes.session_options import NO_OPTIMIZER
from kernels.feed_forwards import FEED_FORWARDS, FeedForward
from kernels.graphs import FEW, KERNELS, MANY, Kernel, pair
from kernels.timing import measure


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_both_graphs_of_a_kernel_differ_in_that_kernel_alone(kernel: Kernel, tmp_path: Path) -> None:
    graphs = pair(kernel, 3, np.random.default_rng(0))
    ran = []
    for name, model in (("less", graphs.less), ("more", graphs.more)):
        (tmp_path / name).write_bytes(model)
        ran.append(Counter(k.operator for k in executed_kernels(tmp_path / name, NO_OPTIMIZER, graphs.feeds)))
    operator = kernel.name.rpartition("::")[2].partition(":")[0]
    if kernel.product == "whole":
        assert ran == [{"Gather": 1}, {operator: 1, "Gather": 1}]
        assert graphs.elements == 3 * kernel.width
    elif kernel.product is not None:
        product = {"MatMul": 1} if kernel.product == "follows" else {}
        assert ran == [{"MatMul": 1, "Gather": 1}, {**product, operator: 1, "Gather": 1}]
        assert graphs.elements == 3 * kernel.width
    else:
        assert ran == [{operator: FEW, "Gather": 1}, {operator: MANY, "Gather": 1}]
        assert graphs.elements == (MANY - FEW) * 3 * kernel.width


@pytest.mark.slow
@pytest.mark.parametrize("block", FEED_FORWARDS, ids=lambda block: block.name)
def test_a_feed_forward_is_compared_with_none_and_parts_with_the_whole(block: FeedForward) -> None:
    graphs = block.pair(3, np.random.default_rng(0))
    (less, y), (more, z) = (
        (
            [node.op_type for node in onnx.load_from_string(model).graph.node],
            onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, graphs.feeds)[0],
        )
        for model in (graphs.less, graphs.more)
    )
    if block.is_split:
        assert (less.count("MatMul"), more.count("Gemm") >= PARTS) == (3 if block.activation == "silu" else 2, True)
        np.testing.assert_allclose(z, y, rtol=1e-4, atol=1e-4)
    else:
        assert less == ["Gather"]
        assert more.count("MatMul") == (3 if block.activation == "silu" else 2)


@pytest.mark.slow
def test_numbers_stay_normal_along_a_chain() -> None:
    for kernel in KERNELS:
        graphs = pair(kernel, 64, np.random.default_rng(0))
        (y,) = onnxruntime.InferenceSession(graphs.more, providers=["CPUExecutionProvider"]).run(None, graphs.feeds)
        assert np.isfinite(y).all()
        magnitudes = np.abs(y[y != 0])
        assert (magnitudes >= np.finfo(np.float32).tiny).all(), kernel.name
        # Sigmoid is the one that brings all numbers close to one another.
        assert len(np.unique(magnitudes)) > kernel.width / 10, kernel.name


def test_what_the_runtime_does_not_know_is_left_out_and_said() -> None:
    unknown = Kernel("Relu", 8, tokens=(2, 3)), Kernel("com.microsoft::NoSuchOperator", 8)
    lines: list[str] = []
    found, lacking = measure(unknown, threads=1, passes=2, seconds=0, progress=lines.append)
    assert [cost.kernel.name for cost in found] == ["Relu"]
    assert {tokens: len(each) for tokens, each in found[0].by_tokens.items()} == {2: 2, 3: 2}
    assert list(lacking) == ["com.microsoft::NoSuchOperator"]
    assert lines == ["pass 1 of 2", "pass 2 of 2"]


# One of each kind: alone, a product, behind one, a whole one; and a feed-forward, whole and in pieces.
ONE_OF_EACH = [next(each for each in KERNELS if each.product == kind) for kind in (None, "is", "follows", "whole")]


@pytest.mark.integration  # its time goes to kernels of ONNX Runtime
@pytest.mark.parametrize("of_each_kind", [True, pytest.param(False, marks=pytest.mark.exhaustive)])
def test_a_table_is_written_in_its_place_and_the_loader_reads_it(
    of_each_kind: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if of_each_kind:
        monkeypatch.setattr(measure_kernels, "KERNELS", ONE_OF_EACH)
        monkeypatch.setattr(measure_kernels, "FEED_FORWARDS", FEED_FORWARDS[:2])
    kernels, blocks = (ONE_OF_EACH, FEED_FORWARDS[:2]) if of_each_kind else (KERNELS, FEED_FORWARDS)
    names = {*(each.name for each in kernels), *(each.name for each in blocks)}
    path, alone = tmp_path / "costs.json", tmp_path / "alone.json"
    stale = {
        "onnxruntime": onnxruntime.__version__,
        "instruction_set": instruction_set(),
        "processor": "p",
        "dtype": "float32",
        "threads": 1,
        "command": "c",
        "ns_per_element": {"Stale": 1.0},
        "vendor": vendor(),
        "family": family(),
    }
    path.write_text(json.dumps({"format": 2, "tables": [stale, {**stale, "onnxruntime": "1.5.0"}]}))
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors):
        status = measure_kernels.main(
            ["--passes", "1", "--seconds", "0.01", "--write", "--tables", str(path), "--json", str(alone)]
        )
    assert status == 0, errors.getvalue()
    assert [table.onnxruntime for table in read_tables(path)] == ["1.5.0", onnxruntime.__version__]
    (table,) = read_tables(alone)
    assert table == read_tables(path)[1]
    assert set(table.ns_per_element) == names
    assert table.command == "python scripts/measure_kernels.py --threads 1 --passes 1 --seconds 0.01"
    assert all(cost == float(f"{cost:.3g}") for cost in table.ns_per_element.values())
    found = costs(path=path)
    assert found is not None
    lines = errors.getvalue().splitlines()
    assert {line.split()[0] for line in lines} >= names


def test_bad_usage_is_status_2() -> None:
    for arguments in (["--threads", "0"], ["--passes", "many"]):
        with pytest.raises(SystemExit) as stop, contextlib.redirect_stderr(io.StringIO()):
            measure_kernels.main(arguments)
        assert stop.value.code == 2
