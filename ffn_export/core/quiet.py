"""Keep the output of torch and onnxscript off the terminal, so that an error is one line of this package."""

from __future__ import annotations

import contextlib
import io
import logging
import threading
import warnings
from collections.abc import Iterator

_READING = threading.RLock()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence logging and warnings, such as those about optional packages and deprecations."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


@contextlib.contextmanager
def quiet_reading() -> Iterator[None]:
    """Silence what onnx-ir logs, and warnings.

    Turning logging off, as :func:`quiet` does, goes over every logger of PyTorch twice: a tenth of the time in which a
    small file is read. Threads take turns, so that the last one restores what the first one found.
    """
    logger, nowhere = logging.getLogger("onnx_ir"), logging.NullHandler()
    with _READING, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = logger.propagate
        logger.addHandler(nowhere)  # without any handler, logging writes to standard error
        logger.propagate = False
        try:
            yield
        finally:
            logger.propagate = before
            logger.removeHandler(nowhere)


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """As :func:`quiet`, and discard standard error: torch.export prints the graph of a failed trace."""
    with quiet(), contextlib.redirect_stderr(io.StringIO()):
        yield
