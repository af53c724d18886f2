"""The example notebook: runs its cells, and shows them with their results as a page."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docs_site.repository import ROOT

NOTEBOOK = ROOT / "examples" / "notebook" / "encoder.ipynb"


def cells() -> list[tuple[str, str]]:
    """Return kind and text of each cell."""
    read = json.loads(NOTEBOOK.read_text())
    return [(cell["cell_type"], "".join(cell["source"])) for cell in read["cells"]]


def results() -> Iterator[str]:
    """Run the cells of code in a directory of their own, and give after each its output and the value of its end."""
    names: dict[str, Any] = {"__name__": "__main__"}
    with tempfile.TemporaryDirectory(prefix="ffn-export-") as folder, contextlib.chdir(folder):
        for kind, text in cells():
            if kind == "code":
                yield _result(text, names)


def page() -> str:
    """Return the notebook as Markdown, with the results of a run."""
    made = results()
    parts = []
    for kind, text in cells():
        if kind == "markdown":
            parts.append(text)
        else:
            parts.append(f"```python\n{text}\n```")
            shown = next(made).strip()
            parts.extend([f"```text\n{shown}\n```"] if shown else [])
    with contextlib.suppress(StopIteration):
        next(made)
    return "\n\n".join(parts) + "\n"


def _result(text: str, names: dict[str, Any]) -> str:
    *statements, last = ast.parse(text).body
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        exec(compile(ast.Module(statements, []), "notebook", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "notebook", "eval"), names)
            print("" if value is None else value)
        else:
            exec(compile(ast.Module([last], []), "notebook", "exec"), names)
    return printed.getvalue().replace(str(Path.cwd()), ".")
