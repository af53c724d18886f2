"""Results that show themselves: as text by ``print``, as HTML in a notebook.

The reports know how results look and import their types, so a result asks for them only when it is shown.
"""

from __future__ import annotations

import importlib
from typing import Any


class Shown:
    """Base of results that have a table in the reports, and of results that consist of such results."""

    def __str__(self) -> str:
        """Return the tables of the command line."""
        return str(_reports().as_text(self))

    def _repr_html_(self) -> str:
        return str(_reports().as_html(self))


def _reports() -> Any:
    return importlib.import_module("ffn_export.reports.shown")
