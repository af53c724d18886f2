"""Keep torch's and onnxscript's own words off the terminal: an error is one line, and it is ours."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence log lines about optional packages and deprecation warnings."""
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
    """As :func:`quiet`, and drop what is printed: torch.export prints the graph of a failed trace."""
    with quiet(), contextlib.redirect_stderr(io.StringIO()):
        yield
