"""The file of costs: what ``scripts/measure_kernels.py`` measured, a table for each version, processor and provider.

A cost is in nanoseconds for an element of the kernel's first output: the mean of what was measured with 64 and with 512
rows. Norms and residual sums are 768 wide, what stands between two products is 3072 wide. Of a product it is what it
costs more than a bare MatMul of the same matrices: ``Gemm`` is to be compared with ``Add``. ``MatMul:aliased`` and
``MatMul:padded`` are whole products to 768 columns, of rows of 3072 numbers, which lie a multiple of 4096 bytes apart,
and of rows that are longer by a cache line. ``FeedForward:gelu`` is a whole feed-forward of 768 and 3072, with 512 and
with 2048 rows, and ``FeedForward:gelu:pieces`` what it costs more with its hidden layer in pieces: below 0, less.

An operator is named as in a graph, ``Add`` or ``com.microsoft::BiasGelu``, with a colon and a word where the same
operator is used in another way: ``Add`` adds a row, ``Add:residual`` a tensor of the same shape.
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

from ffn_export.errors import UsageError

TABLES = Path(__file__).with_name("costs.json")
_SCHEMA = Path(__file__).with_name("costs.schema.json")


@dataclass(frozen=True)
class Table:
    """A measurement as it is stored.

    Attributes:
        onnxruntime: The version of ONNX Runtime.
        instruction_set: That of the processor.
        provider: The execution provider, by its name in ONNX Runtime.
        processor: The processor's own name.
        dtype: Of all tensors.
        threads: Intra-op threads.
        command: What measured it.
        ns_per_element: Operator -> nanoseconds for an element of its first output.
        vendor: Who made the processor, as it says itself; empty where the table is for any.
        family: The number of the processor's family; empty where the table is for any of the vendor.
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
        """The version of ONNX Runtime, to be compared."""
        return Version(self.onnxruntime)

    @property
    def key(self) -> tuple[str, Version, str, str, str]:
        """What there is one table of, in the order in which tables are stored."""
        return (self.provider, self.version, self.instruction_set, self.vendor, self.family)


def read_tables(path: Path = TABLES) -> tuple[Table, ...]:
    """Read the measurements that are stored in a file.

    Raises:
        UsageError: If it cannot be read, or does not follow its schema; the message says where.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse, parse_float=_finite)
    except (OSError, ValueError) as error:
        raise UsageError(f"no tables of costs in {path}: {error}") from error
    if path != TABLES:  # which a test holds against the schema: to load what does takes longer than most fusions
        check(data, path)
    return tuple(Table(**entry) for entry in data["tables"])


def check(data: object, path: Path) -> None:
    """Hold a file's data against its schema, and see that there is one table of each kind.

    Raises:
        UsageError: The message says where something is wrong.
    """
    problem = next(iter(sorted(_validator().iter_errors(data), key=lambda e: list(map(str, e.path)))), None)
    if problem is not None:
        where = "/".join(map(str, problem.path)) or "the file"
        raise UsageError(f"no tables of costs in {path}: {where}: {problem.message[:200]}")
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
def _validator() -> Any:
    import jsonschema

    return jsonschema.Draft202012Validator(json.loads(_SCHEMA.read_text(encoding="utf-8")))
