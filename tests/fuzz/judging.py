"""Asks a worker what a file makes a command do, and says what of it no file may."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# What the commands hold themselves to, and what they had taken when it began.
CPU_SECONDS = 10 + 4  # the system looks once a second, and several threads run meanwhile
MEGABYTES = 1024 + 600

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_ENDED_WITH_A_LINE = (signal.SIGXCPU, signal.SIGSEGV, signal.SIGABRT, signal.SIGFPE, signal.SIGBUS, signal.SIGKILL)


@dataclass(frozen=True)
class Outcome:
    """What a command did: how it ended, what it took and wrote."""

    arguments: tuple[str, ...]
    status: int
    cpu: float
    megabytes: float
    output: str

    def faults(self) -> list[str]:
        """Return what no file may make a command do."""
        found = []
        if "Traceback (most recent" in self.output or "ffn-export: unexpected" in self.output:
            found.append("a traceback or an unexpected error")
        if any(line.startswith("::") for line in self.output.splitlines()):
            found.append("a line that a CI runner takes for a command")
        if _CONTROL.search(self.output):
            found.append("control characters")
        if "GUARD" in self.output:
            found.append("it started a program, or opened a file that is none of its own")
        # A crash of a library ends the command with a line and 2 (``supervised``); it would end a user's program.
        crashed = self.status < 0 and (self.arguments[0] == "load" or -self.status not in _ENDED_WITH_A_LINE)
        if crashed or self.status not in {0, 1, 2, 3} | {-number for number in _ENDED_WITH_A_LINE}:
            found.append(f"it ended with {self.status}")
        if self.status > 1 and not self.output.strip() and self.arguments[0] != "load":
            found.append("an error without a word")
        if self.cpu > CPU_SECONDS or self.megabytes > MEGABYTES:
            found.append(f"{self.cpu:.0f} s of CPU time, {self.megabytes:.0f} MB")
        return found


class Worker:
    """A process that runs commands on files; see ``worker``."""

    def __init__(self, scratch: Path) -> None:
        self.directory = scratch / "work"
        self.directory.mkdir()
        (scratch / "secret.bin").write_bytes(b"\x00" * 4096)
        payload = "import pathlib; pathlib.Path(__file__).with_name('pwned').touch()\n"
        (self.directory / "payload.py").write_text(payload)
        root = str(Path(__file__).parents[2])
        environment = {
            **os.environ,
            "PYTHONPATH": root,
            "PYTHONWARNINGS": "default",
            "TMPDIR": str(scratch),
            "COLUMNS": "200",
        }
        environment.pop("FFN_EXPORT_STRICT", None)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=root,
            env=environment,
        )

    def ask(self, *arguments: str) -> Outcome:
        """Run a command, or ``load``, in the directory of the worker."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"arguments": arguments, "directory": str(self.directory)}) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        if (self.directory / "pwned").exists():
            (self.directory / "pwned").unlink()
            answer["output"] += "\nGUARD a module of the file's was imported\n"
        return Outcome(arguments, **answer)

    def close(self) -> None:
        """End the process."""
        self._process.communicate()
