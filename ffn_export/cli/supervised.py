"""Run a command in a child process, so that a crash becomes a one-line message and an exit status.

A crash in a library, or a limit that the child has set for itself (``limits``), ends the child. The parent reports how
it ended. Supervision costs almost no time: the parent forks before anything heavy is imported, and then waits.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Collection

from ffn_export.core.parent_process import end_with

ENDING = ("SIGINT", "SIGTERM", "SIGHUP")  # signals by which a command is told to end
_KERNEL = 0  # signals with a higher code come from the terminal, which sends them to every process of the command


def is_possible() -> bool:
    """Whether processes can be supervised here: on Linux."""
    return sys.platform == "linux"


def wait_for_command() -> int | None:
    """Fork: return None in the child; in the parent, wait and return the exit code, negative for a signal."""
    signals = {getattr(signal, name) for name in ENDING} | {signal.SIGCHLD}
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # an ignored SIGCHLD is not delivered
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        end_with(parent)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return None
    return _status_of(child, signals)


def _status_of(child: int, signals: Collection[signal.Signals]) -> int:
    while True:
        received = signal.sigwaitinfo(signals)
        if received.si_signo == signal.SIGCHLD:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
        elif received.si_code <= _KERNEL:
            os.kill(child, received.si_signo)


def was_told(ended_by: int) -> bool:
    """Whether the signal that ended a process was one by which a command is told to end."""
    return signal.Signals(ended_by).name in ENDING


def words(ended_by: int) -> str:
    """Return the message for a process that a signal ended."""
    if ended_by == signal.SIGXCPU:
        return "it took more CPU time than a file of its size may: allow it more with --max-cpu SECONDS"
    name = signal.Signals(ended_by).name
    if was_told(ended_by):
        return f"interrupted by {name}; what was there before is unchanged"
    if ended_by == signal.SIGKILL:
        return f"the process was ended by {name}, probably since there was no memory left"
    return f"a library crashed ({name}) on what it was given: the file is damaged, or was made to do that"
