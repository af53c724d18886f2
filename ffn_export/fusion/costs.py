"""Measured costs of kernels, which decide the defaults of optional forms.

``scripts/measure_kernels.py`` writes ``costs.json``, with a table for each version of ONNX Runtime and processor that
was measured. A cost is in nanoseconds per element of the kernel's first output: the mean of measurements with 64 and
with 512 rows. Norms and residual sums have width 768, operators between two products 3072.

An operator is named as in a graph: ``Add`` or ``com.microsoft::BiasGelu``. A suffix marks another use of it: ``Add``
adds a row, ``Add:residual`` a tensor of the same shape. Some entries need more words:

- Products: the cost above a bare MatMul of the same matrices, so ``Gemm`` is to be compared with ``Add``.
- ``MatMul:aliased``: a whole product of rows of 3072 numbers, a multiple of 4096 bytes apart, to 768 columns.
- ``MatMul:padded``: the same with rows that are longer by a cache line.
- ``FeedForward:gelu``: a whole feed-forward of 768 and 3072, with 512 and with 2048 rows.
- ``FeedForward:gelu:split``: the extra cost of its split hidden layer; below 0, the split one is faster.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from ffn_export.core import processor
from ffn_export.core.plain_data import PlainData
from ffn_export.errors import UsageError

TABLES = Path(__file__).with_name("costs.json")
_FORMAT = 2
_PACKAGES = ("onnxruntime-gpu", "onnxruntime")


@dataclass(frozen=True)
class Table(PlainData):
    """The costs on one processor, with the vendor, family and name that it reports.

    Attributes:
        onnxruntime: Version of ONNX Runtime.
        dtype: Dtype of all tensors.
        threads: Number of intra-op threads.
        command: Command that measured it.
        ns_per_element: Operator -> nanoseconds per element of its first output.
    """

    onnxruntime: str
    instruction_set: str
    vendor: str
    family: str
    processor: str
    dtype: str
    threads: int
    command: str
    ns_per_element: Mapping[str, float]

    def __post_init__(self) -> None:
        try:
            Version(self.onnxruntime)
        except InvalidVersion as error:
            raise ValueError(f"onnxruntime: {error}") from error
        for name, cost in self.ns_per_element.items():
            if not math.isfinite(cost):
                raise ValueError(f"the cost of {name} is no number")

    @property
    def key(self) -> tuple[str, str, str, Version]:
        """The fields that identify a table, in the order by which tables are sorted."""
        return (self.instruction_set, self.vendor, self.family, Version(self.onnxruntime))

    @property
    def words(self) -> str:
        """The table's name in one line."""
        return f"onnxruntime {self.onnxruntime}, {processor.Kind(self.instruction_set, self.vendor, self.family)}"


def read_tables(path: Path = TABLES) -> tuple[Table, ...]:
    """Read the measurements in a file.

    Raises:
        UsageError: If the file cannot be read, or its data are not valid; the message says where.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(data, dict) or data.get("format") != _FORMAT or not isinstance(data.get("tables"), list):
            raise ValueError(f"it is no file of format {_FORMAT}: measure again")
        tables = tuple(map(Table.from_dict, data["tables"]))
    except (OSError, ValueError) as error:
        raise UsageError(f"no tables of costs in {path}: {error}") from error
    if len({table.key for table in tables}) < len(tables):
        raise UsageError(f"{path} has two tables for one version and processor")
    return tables


def stored(tables: Iterable[Table]) -> dict[str, Any]:
    """Return measurements as the plain data that :func:`read_tables` reads, sorted."""
    ordered = [table.to_dict() for table in sorted(tables, key=lambda table: table.key)]
    for entry in ordered:
        entry["ns_per_element"] = dict(sorted(entry["ns_per_element"].items()))
    return {"format": _FORMAT, "tables": ordered}


@cache
def costs(version: str | None = None, path: Path = TABLES, *, key: tuple[str, str, str] | None = None) -> Table | None:
    """Return the costs on this processor, or None if it was not measured: caches differ between processors.

    Of several versions of ONNX Runtime, the newest that is not above the asked one is taken, or else the oldest.

    Args:
        version: Version of ONNX Runtime; by default the installed one, or the newest measured if none is installed.
        path: File of tables.
        key: Instruction set, vendor and family of the processor; by default this machine's.

    Raises:
        UsageError: If the file holds no valid tables.
    """
    key = key or astuple(processor.kind())
    measured = {table.key[-1]: table for table in read_tables(path) if table.key[:-1] == key}
    version = version or installed_version()
    asked = max(measured, default=None) if version is None else Version(version)
    not_above = [each for each in measured if asked is not None and each <= asked]
    nearest = max(not_above) if not_above else min(measured, default=None)
    return None if nearest is None else measured[nearest]


def installed_version() -> str | None:
    """Return the version of the installed onnxruntime, or None, without importing it."""
    for package in _PACKAGES:
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return None
