"""Runs commands on files, each in a process that is forked when all libraries are imported, and tells what it did.

One job a line comes in as JSON, ``{"arguments": [...], "directory": ...}``; what became of it goes out as JSON.
The process has the limits that the command line sets itself, and a guard that notes what no file may make it do.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

WALL_SECONDS = 120  # of a process that waits for something that never comes

_IMPORTED_LATE = (
    "torch",
    "onnxruntime",
    "onnxruntime.tools.symbolic_shape_infer",
    "onnx.reference",
    "ffn_export.verbs.verify",
    "ffn_export.verbs.load",
    "ffn_export.inspection.inspect",
    "ffn_export.fusion_check.check",
    "ffn_export.reports.console",
    "ffn_export.reports.tables",
    "ffn_export.cli.inspect",
    "ffn_export.cli.fuse",
    "ffn_export.cli.verify",
    "ffn_export.runtimes.registry",
    "ffn_export.runtimes.contrib_operators",
)
_RUNS_SOMETHING = ("os.system", "subprocess.Popen", "os.exec", "os.posix_spawn", "socket.connect")


def main() -> None:
    """Answer jobs until there are no more."""
    for name in _IMPORTED_LATE:
        with contextlib.suppress(ImportError):  # an optional runtime
            importlib.import_module(name)
    for line in sys.stdin:
        print(json.dumps(_outcome(json.loads(line))), flush=True)


def _outcome(job: dict[str, Any]) -> dict[str, Any]:
    directory = Path(job["directory"])
    output = directory.parent / "output.txt"
    child = os.fork()
    if child == 0:
        _run(job["arguments"], directory, output)
    _, status, used = os.wait4(child, 0)
    return {
        "status": os.waitstatus_to_exitcode(status),
        "cpu": used.ru_utime + used.ru_stime,
        "megabytes": used.ru_maxrss / 1024,
        "output": output.read_bytes().decode("utf-8", "surrogateescape"),
    }


def _run(arguments: list[str], directory: Path, output: Path) -> None:
    """Be the command; never return."""
    signal.alarm(WALL_SECONDS)
    with output.open("wb", buffering=0) as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(directory)
    sys.path.insert(0, str(directory))
    status = 70
    try:
        sys.dont_write_bytecode = True  # a file that is written elsewhere is a fault
        sys.addaudithook(_guard(directory))
        status = _load(arguments[1]) if arguments[0] == "load" else _command(arguments)
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001 - told, and judged by who reads it
        traceback.print_exc()
    finally:
        os._exit(status)


def _command(arguments: list[str]) -> int:
    from ffn_export.cli.main import run
    from ffn_export.reports.streams import guard_libraries

    guard_libraries()
    return run(arguments, is_supervised=True)


def _load(bundle: str) -> int:
    import ffn_export as fx
    from ffn_export.cli.limits import hold
    from ffn_export.cli.state import State
    from ffn_export.errors import FfnExportError

    hold(State(supervised=True), [Path(bundle)])
    try:
        fx.load(bundle)
    except FfnExportError as error:
        return 2 if "\n" not in str(error) else 71
    return 0


def _guard(directory: Path) -> Any:
    """Return an audit hook that tells of programs that are started, and of files that are written elsewhere."""
    allowed = (str(directory.parent), os.environ.get("TMPDIR", "/tmp"), "/dev/", "/proc/self/")
    told = os.dup(2)

    def hook(event: str, values: tuple[Any, ...]) -> None:
        if event in _RUNS_SOMETHING and values[0] != "uname":  # which Python asks for the processor's name
            os.write(told, f"\nGUARD {event} {values[:2]!r}\n".encode())
        elif event == "open" and isinstance(values[0], str) and isinstance(values[2], int):
            writes = values[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if "secret" in values[0] or (writes and not os.path.abspath(values[0]).startswith(allowed)):  # noqa: PTH100
                os.write(told, f"\nGUARD open {values[0]!r}\n".encode())

    return hook


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
