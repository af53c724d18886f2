"""The matrix on a Ray cluster of four node processes."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ffn_export as fx
from ffn_export.bundle.manifest import read_manifest
from ffn_export.cli.main import run
from ffn_export.core.processor import kind
from ffn_export.fusion.costs import costs
from ffn_export.model_matrix import ray_cluster
from ffn_export.model_matrix import run as matrix_run
from ffn_export.model_matrix.entries import read_matrix
from ffn_export.model_matrix.plan import all_steps
from ffn_export.model_matrix.ray_cluster import Place, do_group
from ffn_export.runtimes.environment import current
from tests.model_matrix.here import Here
from tests.model_matrix.ray_nodes import MODULE, environment, facts, lines, model, special, started, toml

pytestmark = pytest.mark.usefixtures("in_processes")  # as on the cluster, where nothing is patched

COMMON = {"fast": True, "targets": ["portable", "ort-cpu"], "runtimes": ["ort-cpu", "reference"]}
BRIEF = {"fast": True, "targets": ["portable"], "runtimes": ["ort-cpu"]}


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[Any, list[Any]]]:
    with started(
        {"num_cpus": 1, "resources": {"here": 1}},
        {"num_cpus": 1},
        {"num_cpus": 2, "resources": {"amd-25": 1}},
        {"num_cpus": 1},
    ) as made:
        yield made


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("zoo.py").write_text(MODULE)
    return tmp_path


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Do what no cluster does in this process, with the forms of this machine, as a process of its own would."""
    monkeypatch.setattr(matrix_run, "Processes", Here)
    monkeypatch.setattr("ffn_export.fusion.forms.choice.costs", costs)
    yield
    sys.modules.pop("zoo", None)


@pytest.mark.integration
def test_a_cluster_gives_what_one_process_gives(cluster: Any, here: None, folder: Path) -> None:
    nodes, (*_, last) = cluster
    zoo: dict[str, Any] = {
        **COMMON,
        "runtimes": ["ort-cpu"],
        "model": [*map(model, range(3)), special("crash", targets=["portable"])],
    }
    killed: list[str] = []
    crashes = Path("crashes")

    def kill(line: str) -> None:
        # After the model that crashes has had its three tries: one on this node would be lost with it.
        if not killed and crashes.exists() and len(crashes.read_text().split()) == 3:
            killed.append(line)
            nodes.remove_node(last, allow_graceful=False)

    result = fx.matrix(zoo, "cluster", ray=nodes.address, progress=kill)
    assert killed
    sound = {**zoo, "model": zoo["model"][:-1]}
    alone = fx.matrix(sound, "alone", jobs=1)
    assert facts(result.cells, without="crash") == facts(alone.cells)
    assert alone.passed
    for cell in alone.cells:
        one, other = (
            json.loads((Path(each) / str(cell.path) / "manifest.json").read_text()) for each in ("alone", "cluster")
        )
        assert one["files"]["model.onnx"] == other["files"]["model.onnx"]
    crashed = [cell for cell in result.cells if cell.model == "crash"]
    assert [cell.verdict for cell in crashed] == ["failed"]
    assert crashed[0].message.startswith("3 times: its worker ended: a library crashed")
    assert len(set(crashes.read_text().split())) == 3, "three workers"
    told: list[str] = []
    assert fx.matrix(sound, "cluster", jobs=1, progress=told.append).passed
    assert told == ["6 of 6 cells are done and unchanged"], "a cell that was done there is done here"


@pytest.mark.integration
def test_a_cell_gets_what_it_needs(cluster: Any, folder: Path) -> None:
    address = cluster[0].address
    timed = special("told", action="bench", tokens=[4], runtimes=["ort-cpu"], targets=["ort-cpu"])
    cuda = {**model(0), "runtimes": ["ort-cuda"]}
    result = fx.matrix({**COMMON, "model": [timed, cuda]}, "timed", ray=address)
    verdicts = {(cell.runtime, cell.verdict) for cell in result.cells}
    assert ("ort-cpu", "passed") in verdicts
    assert verdicts - {("ort-cpu", "passed")} <= {("ort-cuda", "unavailable"), ("ort-cuda", "passed")}
    assert "'CPU': 2.0" in Path("assigned").read_text(), "all processors of the largest node"
    there = special("told", processors=["amd-25"], runtimes=["ort-cpu"], targets=["ort-cpu"])
    (cell,) = fx.matrix({"fast": True, "model": [there]}, "there", ray=address, memory=4).cells
    assert (cell.processor, cell.path, cell.verdict) == ("amd-25", "told-ort-cpu-amd-25", "passed")
    assert "'amd-25': 0.001" in Path("assigned").read_text()
    assert "'memory': 4000000000" in Path("assigned").read_text()
    with pytest.raises(
        fx.UsageError,
        match="no node of the cluster can hold told-ort-cpu-amd-99: it asks for 1 CPU, amd-99; the nodes have",
    ):
        fx.matrix({"model": [special("told", processors=["amd-99"])]}, "nowhere", ray=address)
    with pytest.raises(fx.UsageError, match="it asks for 1 CPU, 1e\\+03 GB of memory"):
        fx.matrix({"model": [special("told")]}, "nowhere", ray=address, memory=1000)


@pytest.mark.integration
@pytest.mark.parametrize("action", ["build", pytest.param("tune", marks=pytest.mark.exhaustive)])
def test_the_kinds_of_processor_end_in_one_bundle(cluster: Any, folder: Path, action: str) -> None:
    briefly = {"tuning": {"seconds": 0.001}, "bench_budget": 0.0} if action == "tune" else {"fast": True}
    model = special("elsewhere", processors=["here", "amd-25"], action=action, targets=["ort-cpu"], **briefly)
    result = fx.matrix({"model": [model]}, "out", ray=cluster[0].address)
    assert result.passed, [cell.message for cell in result.cells]
    assert [(cell.action, cell.processor, cell.path) for cell in result.cells] == [
        (action, "here", "elsewhere-ort-cpu-here"),
        (action, "amd-25", "elsewhere-ort-cpu-amd-25"),
        ("join", "", "elsewhere-ort-cpu"),
    ]
    graphs = read_manifest(Path("out/elsewhere-ort-cpu")).graphs
    assert [str(each.processor) for each in graphs.values()] == [str(kind()), "avx2, GenuineIntel family 6"]
    assert all((each.tuning is not None) == (action == "tune") for each in graphs.values())
    assert fx.load("out/elsewhere-ort-cpu").info["graph"] == "model.onnx"
    told: list[str] = []
    assert fx.matrix({"model": [model]}, "out", ray=cluster[0].address, progress=told.append).passed
    assert told == ["3 of 3 cells are done and unchanged"]


@pytest.mark.integration
def test_an_interrupt_leaves_whole_results_and_what_is_missing_is_done_next(cluster: Any, folder: Path) -> None:
    zoo = {**BRIEF, "model": [model(0), special("endless"), model(1)]}
    Path("zoo.toml").write_text(toml(zoo))
    words = ["matrix", "zoo.toml", "-o", "out", "--ray", cluster[0].address]
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's background ignores it
    )
    code += f"from ffn_export.cli.main import main; main({words})"
    command = subprocess.Popen([sys.executable, "-c", code], env=environment(), stderr=subprocess.PIPE, text=True)
    while not (Path("begun").exists() and len(lines(Path("out"))) == 2):
        assert command.poll() is None
        time.sleep(0.1)
    command.send_signal(signal.SIGINT)
    said = command.communicate()[1].splitlines()
    assert command.returncode == 130
    assert said[-1] == "ffn-export: interrupted; what was there before is unchanged"
    assert max(map(len, said)) <= 100
    kept = lines(Path("out"))
    assert [json.loads(line)["verdict"] for line in kept] == ["passed"] * 2
    assert Path("out/index.html").is_file()
    told: list[str] = []
    Path("zoo.toml").write_text(toml({**zoo, "model": [model(0), model(1), model(2)]}))
    assert fx.matrix("zoo.toml", "out", ray=cluster[0].address, progress=told.append).passed
    assert told[0] == "2 of 3 cells are done and unchanged"


@pytest.mark.exhaustive
def test_a_kind_of_node_that_is_lost_is_waited_for_no_more(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_cluster, "_LOOK", 1.0)
    with started({"num_cpus": 1}, {"num_cpus": 1, "resources": {"amd-25": 1}}) as (nodes, (_, other)):
        zoo = {**COMMON, "model": [model(0), special("endless", processors=["amd-25"])]}

        def kill(line: str) -> None:
            if "ffn_0" in line and other in nodes.worker_nodes:
                nodes.remove_node(other, allow_graceful=False)

        result = fx.matrix(zoo, "out", ray=nodes.address, progress=kill)
    verdicts = {cell.model: cell.verdict for cell in result.cells}
    assert verdicts == {"ffn_0": "passed", "endless": "unavailable"}


def test_a_cluster_that_is_not_there_is_one_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("zoo.toml").write_text('[[model]]\nspec = "d2l-ffn"\n')
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    for words, said in (
        (["--ray", f"127.0.0.1:{port}"], f"no Ray cluster answers at 127.0.0.1:{port}: [Errno 111] Connection refused"),
        (["--ray", "ray://127.0.0.1:9"], "'ray://127.0.0.1:9' is no address of a Ray cluster: give auto, or HOST:PORT"),
        (["--ray", "nonsense"], "'nonsense' is no address of a Ray cluster"),
        (["--ray", "auto", "--jobs", "2"], "--jobs counts processes of this machine: leave it out with --ray"),
    ):
        assert run(["matrix", "zoo.toml", *words]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert said in line
    Path("zoo.toml").write_text('[[model]]\nspec = "d2l-ffn"\nprocessors = ["amd-25"]\n')
    assert run(["matrix", "zoo.toml"]) == 2
    assert (
        "processors = ['amd-25'] names nodes of a Ray cluster: give its address with --ray" in capsys.readouterr().err
    )
    monkeypatch.setitem(sys.modules, "ray", None)
    assert run(["matrix", "zoo.toml", "--ray", "auto"]) == 2
    assert "needs ray, which is not installed: pip install 'ffn-export[ray]'" in capsys.readouterr().err


@pytest.mark.exhaustive
def test_sixty_models_with_a_node_and_the_command_killed(cluster: Any, folder: Path) -> None:
    nodes, (_, lost, *_) = cluster
    zoo = {**COMMON, "model": list(map(model, range(60)))}
    Path("zoo.toml").write_text(toml(zoo))
    words = [sys.executable, "-m", "ffn_export", "matrix", "zoo.toml", "-o", "cluster", "--ray", nodes.address]
    with subprocess.Popen(words, env=environment(), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as command:
        for cells, act in (
            (40, lambda: nodes.remove_node(lost, allow_graceful=False)),
            (100, command.kill),
        ):
            while len(lines(Path("cluster"))) < cells:
                assert command.poll() is None
                time.sleep(0.1)
            act()
    kept = lines(Path("cluster"))
    told: list[str] = []
    result = fx.matrix("zoo.toml", "cluster", ray=nodes.address, progress=told.append)
    assert told[0] == f"{len(kept)} of 240 cells are done and unchanged"
    assert len(told) == 1 + 240 - len(kept)
    assert list(map(json.loads, lines(Path("cluster"))[: len(kept)])) == list(map(json.loads, kept))
    alone = fx.matrix("zoo.toml", "alone", jobs=1)
    assert alone.passed
    assert len(alone.cells) == 240
    assert facts(result.cells) == facts(alone.cells)


def test_a_node_that_lacks_something_says_so_in_its_cells(folder: Path) -> None:
    (step,) = all_steps(read_matrix({"model": [special("told")]}), lambda *_: 1)
    (folder / "out").mkdir()
    (folder / "out" / "cells.jsonl").touch()
    place = Place(str(folder), str(folder / "out"), fx.__version__, current(1).versions)
    for other, said in (
        (replace(place, results="/gone"), "does not see /gone/cells.jsonl: all nodes must share this path"),
        (replace(place, versions={"torch": "1.0"}), f"has torch {current(1).versions['torch']}, and not 1.0"),
    ):
        (((cell,),)) = do_group([step], other, 1, None)
        assert (cell.verdict, cell.message.endswith(said)) == ("error", True), cell.message
