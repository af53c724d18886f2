"""Runs a command in a process of its own, so that whatever a file does to it ends in one line and an exit status.

A library that crashes, or a limit that the process set itself (``limits``), ends the process. The one that its user
started sees how, and says so. It has no time of its own: it starts before anything is imported, and waits.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Collection

_FORWARDED = ("SIGINT", "SIGTERM", "SIGHUP")
_PR_SET_PDEATHSIG = 1
_KERNEL = 0  # signals with a higher code are the terminal's own, which every process of the command gets


def is_possible() -> bool:
    """Whether processes can be supervised here: on Linux."""
    return sys.platform == "linux"


def wait_for_command() -> int | None:
    """Go on in a new process: return None there, and in this one how the new one ended, as ``waitpid`` tells it."""
    signals = {getattr(signal, name) for name in _FORWARDED} | {signal.SIGCHLD}
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # one that is ignored tells nothing
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        _end_with(parent)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return None
    return _status_of(child, signals)


def _end_with(parent: int) -> None:
    """Let the system end this process when the supervising one ends, however that happens."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before that was said
        os._exit(1)


def _status_of(child: int, signals: Collection[signal.Signals]) -> int:
    while True:
        received = signal.sigwaitinfo(signals)
        if received.si_signo == signal.SIGCHLD:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
        elif received.si_code <= _KERNEL:
            os.kill(child, received.si_signo)


def words(ended_by: int) -> str:
    """Say how a process was ended by a signal."""
    if ended_by == signal.SIGXCPU:
        return "it took more CPU time than a file of its size may: allow it more with --max-cpu SECONDS"
    name = signal.Signals(ended_by).name
    if ended_by == signal.SIGKILL:
        return f"the process was ended by {name}, probably since there was no memory left"
    return f"a library crashed ({name}) on what it was given: the file is damaged, or was made to do that"
