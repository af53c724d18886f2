"""Read and check the file of costs that ``scripts/measure_kernels.py`` wrote.

It holds a table for each version, processor and execution provider. A cost is in nanoseconds per element of the
kernel's first output: the mean of measurements with 64 and with 512 rows. Norms and residual sums have width 768,
operators between two products 3072.

An operator is named as in a graph: ``Add`` or ``com.microsoft::BiasGelu``. A suffix marks another use of it: ``Add``
adds a row, ``Add:residual`` a tensor of the same shape. Some entries need more words:

- Products: the cost above a bare MatMul of the same matrices, so ``Gemm`` is to be compared with ``Add``.
- ``MatMul:aliased``: a whole product of rows of 3072 numbers, a multiple of 4096 bytes apart, to 768 columns.
- ``MatMul:padded``: the same with rows that are longer by a cache line.
- ``FeedForward:gelu``: a whole feed-forward of 768 and 3072, with 512 and with 2048 rows.
- ``FeedForward:gelu:pieces``: the extra cost of its split hidden layer; below 0, the split one is faster.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from packaging.version import InvalidVersion, Version

from ffn_export.core import json_schema
from ffn_export.errors import UsageError

TABLES = Path(__file__).with_name("costs.json")
_SCHEMA = Path(__file__).with_name("costs.schema.json")


@dataclass(frozen=True)
class Table:
    """A stored measurement.

    Attributes:
        onnxruntime: Version of ONNX Runtime.
        instruction_set: Instruction set of the processor.
        provider: Execution provider, by its name in ONNX Runtime.
        processor: Name that the processor reports.
        dtype: Dtype of all tensors.
        threads: Number of intra-op threads.
        command: Command that measured it.
        ns_per_element: Operator -> nanoseconds per element of its first output.
        vendor: Vendor that the processor reports; empty if the table is for any vendor.
        family: Family number of the processor; empty if the table is for any family of the vendor.
    """

    onnxruntime: str
    instruction_set: str
    provider: str
    processor: str
    dtype: str
    threads: int
    command: str
    ns_per_element: Mapping[str, float]
    vendor: str = ""
    family: str = ""

    @property
    def version(self) -> Version:
        """The version of ONNX Runtime, in a type that compares."""
        return Version(self.onnxruntime)

    @property
    def key(self) -> tuple[str, Version, str, str, str]:
        """The fields that identify a table, in the order by which tables are sorted."""
        return (self.provider, self.version, self.instruction_set, self.vendor, self.family)


def read_tables(path: Path = TABLES) -> tuple[Table, ...]:
    """Read the measurements in a file.

    Raises:
        UsageError: If the file cannot be read, or does not follow the schema; the message says where.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse, parse_float=_finite)
    except (OSError, ValueError) as error:
        raise UsageError(f"no tables of costs in {path}: {error}") from error
    check(data, path)
    return tuple(Table(**entry) for entry in data["tables"])


def check(data: object, path: Path) -> None:
    """Check a file's data against the schema, and that no two tables have the same key.

    Raises:
        UsageError: If the data are not valid; the message says where.
    """
    problem = json_schema.first_problem(data, _schema())
    if problem is not None:
        raise UsageError(f"no tables of costs in {path}: {problem}")
    assert isinstance(data, dict)
    keys = set()
    for number, entry in enumerate(data["tables"]):
        try:
            key = Table(**entry).key
        except InvalidVersion as error:
            raise UsageError(f"no tables of costs in {path}: tables/{number}/onnxruntime: {error}") from error
        if key in keys:
            raise UsageError(f"{path} has two tables for {' '.join(map(str, key))}")
        keys.add(key)


def stored(tables: Iterable[Table]) -> dict[str, Any]:
    """Return measurements as the plain data that :func:`read_tables` reads, sorted."""
    ordered = [asdict(table) for table in sorted(tables, key=lambda table: table.key)]
    for entry in ordered:
        entry["ns_per_element"] = dict(sorted(entry["ns_per_element"].items()))
    return {"format": 1, "tables": ordered}


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse(text)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number")


@cache
def _schema() -> json_schema.Schema:
    schema: json_schema.Schema = json.loads(_SCHEMA.read_text(encoding="utf-8"))
    return schema
