"""The PyTorch module under ``torch.compile``, with proof that inductor's code ran.

``torch.compile`` silently continues without compiled code: a graph break leaves Python in between, and after too many
recompilations it runs the module in eager mode. ``fullgraph=True`` makes both an error, and each graph counts its runs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from ffn_export.core.one_line import first_line
from ffn_export.core.strict import expose_own
from ffn_export.core.types import Array
from ffn_export.core.words import counted
from ffn_export.errors import RuntimeUnavailableError
from ffn_export.exporter.source import Source
from ffn_export.runtimes.base import Artifact, Runner
from ffn_export.runtimes.torch_eager import ModuleRuntime, TorchRunner

# Sizes are symbolic, but 0 and 1 are specialised, so every axis may need two more graphs.
_MOST_GRAPHS = 256
_ONE_AT_A_TIME = threading.Lock()


class TorchCompiled(ModuleRuntime):
    """The runtime ``torch-compile``."""

    name = "torch-compile"
    by_default = False  # it runs the module, not the model, and compiling takes longer than all other runtimes

    def unavailable(self, artifact: Artifact) -> str | None:
        """Return why the module or a C++ compiler is missing, or None; compile errors show only in loading."""
        return super().unavailable(artifact) or compiler_problem()

    def load(self, artifact: Artifact, threads: int) -> Runner:
        """Compile the module by running it once, at the sizes with which export traces it."""
        source = self.source_of(artifact)
        runner = CompiledRunner(source, threads)
        args, kwargs = source.arguments(source.traced_sizes())
        try:
            runner.check(args, kwargs)
        except Exception as error:
            inner = getattr(error, "inner_exception", error)  # an error of the backend wraps the cause
            raise RuntimeUnavailableError(f"torch.compile: {first_line(inner)}") from error
        return runner


@dataclass
class Graph:
    """A compiled graph: its number of operators, and how often it ran."""

    operators: int
    runs: int = 0


class CompiledRunner(TorchRunner):
    """A module under ``torch.compile`` with symbolic sizes.

    Args:
        source: The module, and how it is called.
        threads: Intra-op threads.
    """

    def __init__(self, source: Source, threads: int) -> None:
        self.graphs: list[Graph] = []
        compiled = torch.compile(source.module, backend=self._inductor, dynamic=True, fullgraph=True)
        super().__init__(source, threads, compiled)

    def check(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Run once and check that compiled code ran.

        Raises:
            RuntimeError: If no compiled graph ran.
            Exception: Any error of torch.compile, if it cannot compile the module as one graph.
        """
        with many_graphs():
            self._proven(self.caller(args, kwargs))

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Run once, with the proof of :meth:`check`.

        Raises:
            RuntimeUnavailableError: If torch.compile cannot compile for empty inputs, which some operators refuse
                while they are traced.
        """
        try:
            with many_graphs():
                result: dict[str, Array] = self._proven(lambda: super(CompiledRunner, self).run(feeds))
        except torch._dynamo.exc.TorchDynamoException as error:
            if all(array.size for array in feeds.values()):
                raise
            raise RuntimeUnavailableError(
                f"torch.compile refuses inputs without elements: {first_line(error)}"
            ) from error
        return result

    def prepare(self, feeds: Mapping[str, Array]) -> Callable[[], Any]:
        """Return a call that is already compiled."""
        call = super().prepare(feeds)
        with many_graphs():
            self._proven(call)
        return call

    def placement(self) -> dict[str, int]:
        """Return the number of graphs that ran, one for each range of sizes, -> number of operators of the first."""
        ran = [graph for graph in self.graphs if graph.runs]
        return {f"inductor, {counted(len(ran), 'compiled graph')}": ran[0].operators if ran else 0}

    def _inductor(self, module: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
        """Compile one graph and count its runs."""
        from torch._inductor.compile_fx import compile_fx

        compiled: Any = compile_fx(module, inputs)
        graph = Graph(sum(node.op.startswith("call") for node in module.graph.nodes))
        self.graphs.append(graph)

        def run(*args: Any) -> Any:
            graph.runs += 1
            return compiled(*args)

        return run

    def _proven(self, call: Callable[[], Any]) -> Any:
        before = sum(graph.runs for graph in self.graphs)
        result = call()
        if sum(graph.runs for graph in self.graphs) == before:
            raise RuntimeError("no compiled graph ran: the module was run as it is")
        return result


@contextmanager
def many_graphs() -> Iterator[None]:
    """Allow a graph for each range of sizes; beyond the limit torch.compile raises, because of ``fullgraph=True``.

    One thread at a time: the limits are global, and so is the count of runs that proves that compiled code ran.
    """
    from torch._dynamo import config

    with _ONE_AT_A_TIME, config.patch(recompile_limit=_MOST_GRAPHS, accumulated_recompile_limit=_MOST_GRAPHS * 16):
        yield


def compiler_problem() -> str | None:
    """Return why there is no C++ compiler for inductor, or None."""
    try:
        from torch._inductor.cpp_builder import get_cpp_compiler

        get_cpp_compiler()
    except Exception as error:  # noqa: BLE001 - torch's private error; whatever it raises is the reason
        expose_own(error)
        return f"torch.compile has no C++ compiler: {first_line(error)}"
    return None
