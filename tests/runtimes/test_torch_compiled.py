"""torch.compile: proof that compiled code ran, and the reason where it did not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from ffn_export.core.drawing import draw_all
from ffn_export.errors import RuntimeUnavailableError
from ffn_export.exporter.source import Source, from_module
from ffn_export.runtimes import torch_compiled
from ffn_export.runtimes.base import Artifact
from ffn_export.runtimes.torch_compiled import CompiledRunner, TorchCompiled
from ffn_export.runtimes.torch_eager import TorchEager


class Breaks(torch.nn.Module):
    """What torch.compile makes no single graph of: a branch on the numbers."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if x.sum() > 0 else 2 * x


@pytest.mark.integration  # inductor starts a C++ compiler for each graph
@pytest.mark.parametrize(
    ("more", "graphs"), [([(0, 3)], 2), pytest.param([(1, 5), (0, 3), (1, 1)], 4, marks=pytest.mark.exhaustive)]
)
def test_sizes_share_graphs_and_compiled_code_runs_every_time(
    more: list[tuple[int, int]], graphs: int, source: Callable[[str], Source]
) -> None:
    artifact = Artifact(source=source("d2l-ffn"))
    runner, eager = TorchCompiled().load(artifact, 1), TorchEager().load(artifact, 1)
    assert isinstance(runner, CompiledRunner)
    assert runner.placement() == {"inductor, 1 compiled graph": 4}
    assert runner.precision() == "float32"
    for index, sizes in enumerate([(2, 3), (5, 7), (3, 257), (11, 4), *more]):
        feeds = draw_all(artifact.source.inputs, dict(zip(("batch", "seq"), sizes, strict=True)), seed=index)  # type: ignore[union-attr]
        before = sum(graph.runs for graph in runner.graphs)
        np.testing.assert_allclose(runner.run(feeds)["y"], eager.run(feeds)["y"], rtol=0, atol=1e-6)
        assert sum(graph.runs for graph in runner.graphs) == before + 1
        if index == 3:  # four shapes, one graph; 0 and 1 have their own
            assert runner.placement() == {"inductor, 1 compiled graph": 4}
    assert runner.placement() == {f"inductor, {graphs} compiled graphs": 4}


@pytest.mark.integration  # as above
def test_a_prepared_call_compiles_nothing_any_more(source: Callable[[str], Source]) -> None:
    runner = TorchCompiled().load(Artifact(source=source("d2l-ffn")), 1)
    assert isinstance(runner, CompiledRunner)
    call = runner.prepare({"x": np.ones((1, 2, 4), np.float32)})
    graphs = len(runner.graphs)
    call()
    call()
    assert len(runner.graphs) == graphs


def test_a_module_that_is_no_single_graph_is_unavailable_with_the_reason() -> None:
    artifact = Artifact(source=from_module(Breaks(), {"x": "float32[n,2]"}))
    with pytest.raises(RuntimeUnavailableError, match=r"torch\.compile: .*[Dd]ata-dependent") as caught:
        TorchCompiled().load(artifact, 1)
    assert "\n" not in str(caught.value)


def test_code_that_ran_as_it_is_proves_nothing(source: Callable[[str], Source]) -> None:
    runner = CompiledRunner(source("d2l-ffn"), 1)
    with torch.compiler.set_stance("force_eager"), pytest.raises(RuntimeError, match="no compiled graph ran"):
        runner.run({"x": np.ones((1, 2, 4), np.float32)})


@pytest.mark.slow
def test_what_inductor_cannot_compile_is_unavailable(
    source: Callable[[str], Source], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise RuntimeError("C++ compile error\nmany lines")

    monkeypatch.setattr("torch._inductor.compile_fx.compile_fx", refuse)
    with pytest.raises(RuntimeUnavailableError, match="C\\+\\+ compile error") as caught:
        TorchCompiled().load(Artifact(source=source("d2l-ffn")), 1)
    assert "\n" not in str(caught.value)


def test_without_a_compiler_it_says_so(source: Callable[[str], Source], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch._inductor.config.cpp.cxx", ("no-such-compiler",))
    torch._inductor.cpp_builder.cpp_compiler_search.cache_clear()
    try:
        with pytest.raises(RuntimeUnavailableError, match=r"no C\+\+ compiler"):
            TorchCompiled().load(Artifact(source=source("d2l-ffn")), 1)
    finally:
        torch._inductor.cpp_builder.cpp_compiler_search.cache_clear()


def test_without_a_module_it_says_so() -> None:
    assert "no PyTorch module" in str(TorchCompiled().unavailable(Artifact()))
    assert torch_compiled.compiler_problem() is None or "compiler" in str(torch_compiled.compiler_problem())
