"""End a command by Ctrl-C, also if a library loses the exception.

A ``KeyboardInterrupt`` that is raised in a callback of C code, or within a library's ``except``, may be dropped, and
the command would go on. So it is raised again after a while, unless the command is already cleaning up.
"""

from __future__ import annotations

import math
import signal
import sys
import time

from ffn_export.cli import supervised

_ONE_SIGNAL = 1.0  # seconds in which a signal that comes twice is one
_AGAIN = 2.0  # seconds after which it is raised again


def ending() -> list[signal.Signals]:
    """Return the signals by which a command is told to end; Windows has no SIGHUP."""
    return [getattr(signal, name) for name in supervised.ENDING if hasattr(signal, name)]


def end_as_by_ctrl_c() -> None:
    """Clean up after a cancelled job or a closed terminal in the same way as after Ctrl-C."""
    last = -math.inf

    def interrupt(number: int, frame: object) -> None:
        # A signal to all processes of a command comes once more from the one that supervises it. Raised again, it
        # would end the cleaning up.
        nonlocal last
        before, last = last, time.monotonic()
        if last - before > _ONE_SIGNAL:
            _raise_again_after(_AGAIN)
            raise KeyboardInterrupt

    for each in ending():
        if signal.getsignal(each) in (signal.SIG_DFL, signal.default_int_handler):  # `nohup` ignores SIGHUP
            signal.signal(each, interrupt)
    if hasattr(signal, "SIGALRM"):
        signal.signal(signal.SIGALRM, _again)


def ignore() -> None:
    """Ignore further signals: the work is done, and they would only print a traceback during the shutdown."""
    _raise_again_after(0.0)
    for each in ending():
        signal.signal(each, signal.SIG_IGN)


def _again(number: int, frame: object) -> None:
    _raise_again_after(_AGAIN)
    if not _is_cleaning_up():
        raise KeyboardInterrupt


def _is_cleaning_up() -> bool:
    """Whether a ``finally``, an ``except`` or an ``__exit__`` is running because of an interrupt."""
    error = sys.exception()
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def _raise_again_after(seconds: float) -> None:
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)
