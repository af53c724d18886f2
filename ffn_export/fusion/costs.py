"""What each kernel costs, as it was measured: the table by which forms of a site are compared.

Whether a fused kernel is faster than the nodes that it replaces changes with the version of ONNX Runtime and with the
processor, so no rule may know it. ``costs.json`` is written by ``scripts/measure_kernels.py`` and holds a table for
each version, instruction set and execution provider that was measured; :func:`costs` picks the nearest one.

A cost is in nanoseconds for an element of the kernel's first output: the mean of what was measured with 64 and with 512
rows. Norms and residual sums are 768 wide, what stands between two products is 3072 wide.

An operator is named as in a graph, ``Add`` or ``com.microsoft::BiasGelu``, with a colon and a word where the same
operator is used in another way: ``Add`` adds a row, ``Add:residual`` a tensor of the same shape.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from ffn_export.errors import UsageError
from ffn_export.processor import instruction_set as this_instruction_set

FORMAT = 1
TABLES = Path(__file__).with_name("costs.json")
_PACKAGES = ("onnxruntime-gpu", "onnxruntime")
_FIELDS: Mapping[str, type] = {
    "onnxruntime": str,
    "instruction_set": str,
    "provider": str,
    "processor": str,
    "dtype": str,
    "threads": int,
    "command": str,
    "ns_per_element": dict,
}


@dataclass(frozen=True)
class Costs:
    """The costs of kernels, from one table.

    Attributes:
        onnxruntime: The version that was measured.
        instruction_set: That of the processor that was measured.
        provider: The execution provider, by its name in ONNX Runtime.
        ns_per_element: Operator -> nanoseconds for an element of its first output. Of a product, what it costs more
            than a bare MatMul of the same matrices: ``Gemm`` is to be compared with ``Add``.
        is_exact: Whether version (major and minor) and instruction set are those that were asked for.
    """

    onnxruntime: str
    instruction_set: str
    provider: str
    ns_per_element: Mapping[str, float]
    is_exact: bool

    def of(self, operator: str) -> float | None:
        """Return nanoseconds for an element, or None for an operator that was not measured."""
        return self.ns_per_element.get(operator)

    def sum_of(self, operators: Iterable[str]) -> float | None:
        """Return the nanoseconds of operators one after the other, or None where one was not measured."""
        each = [self.of(operator) for operator in operators]
        known = [cost for cost in each if cost is not None]
        return sum(known) if len(known) == len(each) else None

    @property
    def words(self) -> str:
        """The table's name in one line."""
        return f"onnxruntime {self.onnxruntime}, {self.instruction_set}"


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
        ns_per_element: Operator -> nanoseconds for an element, as in :class:`Costs`.
    """

    onnxruntime: str
    instruction_set: str
    provider: str
    processor: str
    dtype: str
    threads: int
    command: str
    ns_per_element: Mapping[str, float]

    @property
    def key(self) -> tuple[str, Version, str]:
        """What there is one table of, in the order in which tables are stored."""
        return (self.provider, Version(self.onnxruntime), self.instruction_set)


@cache
def costs(
    provider: str = "CPUExecutionProvider",
    version: str | None = None,
    instruction_set: str | None = None,
    path: Path = TABLES,
) -> Costs | None:
    """Return the costs that come nearest to what is asked for, or None where nothing of the provider was measured.

    A table of the same instruction set is taken before any other: of the same version, else of the newest release
    (major and minor) that is not above it, else of the next one above. Where there is none, the newest table is.

    Args:
        provider: An execution provider, by its name in ONNX Runtime.
        version: Of ONNX Runtime; by default the installed one's, or the newest where none is installed.
        instruction_set: By default this machine's.
        path: The file of tables.

    Raises:
        UsageError: If the file is no file of tables, or the version is none.
    """
    wanted_set = this_instruction_set() if instruction_set is None else instruction_set
    asked = _version(version or installed_version())
    ours = [table for table in read_tables(path) if table.provider == provider]
    same = [table for table in ours if table.instruction_set == wanted_set]
    if not ours:
        return None
    table = _nearest(same, asked) if same else max(ours, key=_age)
    is_exact = bool(same) and asked is not None and _release(_age(table)) == _release(asked)
    return Costs(table.onnxruntime, table.instruction_set, table.provider, table.ns_per_element, is_exact)


def installed_version() -> str | None:
    """Return the version of onnxruntime that is installed, without importing it, or None."""
    for package in _PACKAGES:
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return None


def read_tables(path: Path = TABLES) -> tuple[Table, ...]:
    """Read the measurements that are stored in a file.

    Raises:
        UsageError: If it cannot be read, is of another format, or holds a table that is none; the message says where.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"no tables of costs in {path}: {error}") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT or not isinstance(data.get("tables"), list):
        raise UsageError(f"{path} holds no tables of costs of format {FORMAT}")
    tables = tuple(_read(entry, f"{path}, table {number}") for number, entry in enumerate(data["tables"], 1))
    keys = [table.key for table in tables]
    for number, key in enumerate(keys):
        if key in keys[:number]:
            raise UsageError(f"{path} has two tables for {' '.join(map(str, key))}")
    return tables


def stored(tables: Iterable[Table]) -> dict[str, Any]:
    """Return measurements as the plain data that :func:`read_tables` reads, sorted."""
    ordered = [asdict(table) for table in sorted(tables, key=lambda table: table.key)]
    for entry in ordered:
        entry["ns_per_element"] = dict(sorted(entry["ns_per_element"].items()))
    return {"format": FORMAT, "tables": ordered}


def _read(entry: object, where: str) -> Table:
    if not isinstance(entry, dict) or entry.keys() != _FIELDS.keys():
        raise UsageError(f"{where}: its fields have to be {', '.join(_FIELDS)}")
    for name, kind in _FIELDS.items():
        if not isinstance(entry[name], kind) or isinstance(entry[name], bool):
            raise UsageError(f"{where}: {name} is no {kind.__name__}: {entry[name]!r}")
    _version(entry["onnxruntime"], f"{where}: ")
    for operator, cost in entry["ns_per_element"].items():
        if not isinstance(cost, int | float) or isinstance(cost, bool) or not math.isfinite(cost):
            raise UsageError(f"{where}: the cost of {operator} is no number: {cost!r}")
    return Table(**entry)


def _version(text: str | None, where: str = "") -> Version | None:
    try:
        return None if text is None else Version(text)
    except InvalidVersion as error:
        raise UsageError(f"{where}{text!r} is no version of onnxruntime") from error


def _nearest(tables: list[Table], asked: Version | None) -> Table:
    """Return the table whose release comes nearest; of several of that release the asked one, or the newest."""
    if asked is None:
        return max(tables, key=_age)
    not_above = [table for table in tables if _release(_age(table)) <= _release(asked)]
    if not not_above:
        return min(tables, key=_age)
    return max(not_above, key=lambda table: (_release(_age(table)), _age(table) == asked, _age(table)))


def _age(table: Table) -> Version:
    return Version(table.onnxruntime)


def _release(version: Version) -> tuple[int, int]:
    return (version.major, version.minor)
