"""The example notebook runs, and its stored results are those of the run."""

from __future__ import annotations

import pytest

from docs_site import notebook


@pytest.mark.integration
def test_the_stored_results_are_those_of_a_run() -> None:
    cells = [cell for cell in notebook.read()["cells"] if cell["cell_type"] == "code"]
    assert len(cells) >= 4
    assert list(notebook.results()) == [notebook.stored(cell) for cell in cells], "python -m docs_site.notebook"
