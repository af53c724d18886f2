"""Keep the output of torch and onnxscript off the terminal, so that an error is one line of this package."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator


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
def silent() -> Iterator[None]:
    """As :func:`quiet`, and discard standard error: torch.export prints the graph of a failed trace."""
    with quiet(), contextlib.redirect_stderr(io.StringIO()):
        yield
