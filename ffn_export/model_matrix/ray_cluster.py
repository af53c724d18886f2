"""A Ray cluster as the engine of a matrix: Ray places the groups on nodes, and tells what became of them."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ffn_export import __version__
from ffn_export.core.matrix_cell import Cell
from ffn_export.core.one_line import first_line
from ffn_export.errors import UsageError, needing
from ffn_export.model_matrix.drive import WorkerDiedError
from ffn_export.model_matrix.entries import TIMED, Entry
from ffn_export.model_matrix.plan import Group, Step
from ffn_export.model_matrix.processes import limit_memory
from ffn_export.model_matrix.store import FILE
from ffn_export.model_matrix.work import run_step
from ffn_export.runtimes.environment import current

_ANSWER = 10.0  # seconds in which the address must answer
_LOOK = 10.0  # seconds between two looks at whether a node is left that can hold a group
_SHARE = 0.001  # of a custom resource: a node that has 1 of it takes as many groups as its processors do
_CUDA = "ort-cuda"
_DEATHS = {
    "WorkerCrashedError": "its worker ended: a library crashed, or there was no memory left",
    "OutOfMemoryError": "its node had no memory left",
    "NodeDiedError": "its node was lost",
}


@dataclass(frozen=True)
class Demand:
    """What a group asks of its node, in Ray's terms.

    Attributes:
        processors: Number of processors.
        gpus: Number of GPUs.
        memory: Bytes; None means that none are reserved.
        kind: Custom resource of the nodes that may take it; None means any.
    """

    processors: int
    gpus: int = 0
    memory: int | None = None
    kind: str | None = None

    @property
    def resources(self) -> dict[str, float]:
        """Name -> amount, as a node lists what it has."""
        asked = {"CPU": self.processors, "GPU": self.gpus, "memory": self.memory or 0}
        return {name: amount for name, amount in {**asked, **self._custom}.items() if amount}

    @property
    def options(self) -> dict[str, Any]:
        """Options of the task."""
        return {"num_cpus": self.processors, "num_gpus": self.gpus, "memory": self.memory, "resources": self._custom}

    @property
    def _custom(self) -> dict[str, float]:
        return {} if self.kind is None else {self.kind: _SHARE}

    def fits(self, node: Mapping[str, float]) -> bool:
        """Whether a node can hold it, as soon as nothing else runs there."""
        return all(node.get(name, 0) >= amount for name, amount in self.resources.items())

    def __str__(self) -> str:
        """Return what is asked, in words."""
        return _words(self.resources)


class RayCluster:
    """The engine for a cluster.

    A group is a task of Ray that gives the cells of each step as they come. A group that times anything asks for as
    many processors as the largest node has that can hold it: nothing else runs on that node meanwhile.

    Args:
        address: ``auto`` for the cluster that this machine is a node of, or ``HOST:PORT`` of its head.
        directory: Directory of the results, which all nodes see under this path.
        memory: Bytes that each group reserves and may allocate; None leaves memory to Ray's monitor.

    Raises:
        MissingPackageError: If Ray is not installed.
        UsageError: If no cluster answers.
    """

    slots = 1000  # all of them wait in Ray's queue, so that none waits for another that asks for other nodes
    tries = 3

    def __init__(self, address: str, directory: Path, memory: int | None = None) -> None:
        with needing("--ray", install="'ffn-export[ray]'"):
            import ray
        self._ray, self._memory = ray, memory
        self._place = Place(str(Path.cwd()), str(directory.absolute()), __version__, current(1).versions)
        self._lock, self._tasks, self._is_stopped = threading.Lock(), set[Any](), False
        self._is_own = not ray.is_initialized()
        if self._is_own:
            _connect(ray, address)
        # What is left of a group runs again by `drive`; Ray would begin the group again.
        self._remote = ray.remote(num_returns="streaming", max_retries=0)(do_group)

    def threads(self, entry: Entry, kind: str | None) -> int:
        """Return the threads of a model: one, and all processors of its node if it is timed."""
        if entry.action not in TIMED:
            return 1
        demand = Demand(1, self._gpus([entry.runtimes]), self._memory, kind)
        return max((int(node["CPU"]) for node in self._nodes() if demand.fits(node)), default=1)

    def check(self, groups: Sequence[Group]) -> None:
        """Check that each group has a node that can hold it.

        Raises:
            UsageError: If one has none, since it would wait forever.
        """
        for group in groups:
            if not self._has_node(demand := self._demand(group)):
                step = group[0]
                raise UsageError(f"no node of the cluster can hold {step.name}: it asks for {demand}; {self._has()}")

    def run(self, group: Group) -> Iterator[Sequence[Cell]]:
        """Yield the cells of each step."""
        errors = self._ray.exceptions
        demand = self._demand(group)
        task = self._submit(group, demand)
        has_node, is_ended = True, False
        try:
            for step in group:
                has_node = has_node and self._is_ready(task, demand)
                if has_node:
                    yield self._ray.get(next(task))
                else:
                    yield step.cells("unavailable", f"no node is left that can hold it: it asks for {demand}")
            if has_node:
                next(task, None)  # until it has returned: to cancel it now would end its worker, which others can use
                is_ended = True
        except errors.RayTaskError:  # an exception of ours
            raise
        except errors.RayError as error:
            raise WorkerDiedError(_DEATHS.get(type(error).__name__, first_line(error))) from error
        finally:
            with self._lock:
                self._tasks.discard(task)
            if not is_ended:
                self._ray.cancel(task, force=True)

    def interrupt(self) -> None:
        """End all tasks, also amid their work."""
        with self._lock:
            self._is_stopped = True
            for task in self._tasks:
                self._ray.cancel(task, force=True)

    def rest(self) -> None:
        """Do nothing: the processes are Ray's."""

    def close(self) -> None:
        """Leave the cluster."""
        if self._is_own:
            self._ray.shutdown()

    def _submit(self, group: Group, demand: Demand) -> Any:
        with self._lock:
            if self._is_stopped:
                raise WorkerDiedError("interrupted")
            task = self._remote.options(name=group[0].name, **demand.options).remote(
                group, self._place, self._threads(group), self._memory
            )
            self._tasks.add(task)
        return task

    def _is_ready(self, task: Any, demand: Demand) -> bool:
        """Wait for the next cells; False if no node is left that could give them."""
        while not self._ray.wait([task], timeout=_LOOK)[0]:
            if not self._has_node(demand):
                return False
        return True

    def _threads(self, group: Group) -> int:
        return max(self.threads(step.entry, step.processor) for step in group)

    def _demand(self, group: Group) -> Demand:
        gpus = self._gpus([step.runtimes or () for step in group])
        return Demand(self._threads(group), gpus, self._memory, group[0].processor)

    def _gpus(self, runtimes: Sequence[Sequence[str]]) -> int:
        """Return 1 if a runtime needs a GPU and there is one; without one, its cells say that they are unavailable."""
        return int(any(_CUDA in each for each in runtimes) and any(node.get("GPU") for node in self._nodes()))

    def _has_node(self, demand: Demand) -> bool:
        return any(map(demand.fits, self._nodes()))

    def _nodes(self) -> list[Mapping[str, float]]:
        return [node["Resources"] for node in self._ray.nodes() if node["Alive"]]

    def _has(self) -> str:
        shown = dict.fromkeys(_words(node) for node in self._nodes())
        return f"the nodes have {'; '.join(shown)}"


def _connect(ray: Any, address: str) -> None:
    """Connect to a cluster.

    Raises:
        UsageError: If the address has another form, or does not answer.
    """
    host, _, port = address.rpartition(":")
    if address != "auto":
        if not host or not port.isdigit() or "/" in host:
            raise UsageError(f"{address!r} is no address of a Ray cluster: give auto, or HOST:PORT of its head node")
        try:  # Ray itself would try for minutes
            socket.create_connection((host, int(port)), timeout=_ANSWER).close()
        except (OSError, OverflowError) as error:
            raise UsageError(f"no Ray cluster answers at {address}: {error}") from error
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # or Ray warns of it
    handler = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)  # Ray's would end the command at once
    except Exception as error:
        raise UsageError(f"no Ray cluster answers at {address}: {first_line(error)}") from error


@dataclass(frozen=True)
class Place:
    """What a node must share with the machine where the command runs."""

    current: str
    results: str
    tool: str
    versions: Mapping[str, str]

    def enter(self) -> str | None:
        """Make the current directory that of the command; return what the node lacks."""
        for path in (Path(self.current), Path(self.results) / FILE):
            if not path.exists():
                return f"node {socket.gethostname()} does not see {path}: all nodes must share this path"
        here = {"ffn-export": __version__, **current(1).versions}
        for name, wanted in {"ffn-export": self.tool, **self.versions}.items():
            if here.get(name) != wanted:
                return f"node {socket.gethostname()} has {name} {here.get(name, 'not')}, and not {wanted}"
        os.chdir(self.current)
        return None


def do_group(steps: Sequence[Step], place: Place, threads: int, memory: int | None) -> Iterator[Sequence[Cell]]:
    """Do the steps of a group: the task that runs on a node."""
    lack = place.enter()
    if memory is not None:
        limit_memory(memory)
    for step in steps:
        yield step.cells("error", lack) if lack is not None else run_step(step, Path(place.results), threads)


def _words(resources: Mapping[str, float]) -> str:
    """Return resources in words, without those that Ray gives to each node."""
    own = {name: amount for name, amount in resources.items() if not name.startswith(("node:", "object_store"))}
    parts = [f"{own.pop(name, 0):g} {name}" for name in ("CPU", "GPU") if name in own]
    if memory := own.pop("memory", 0):
        parts.append(f"{memory / 1e9:.3g} GB of memory")
    return ", ".join([*parts, *sorted(own)])
