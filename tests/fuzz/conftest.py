"""What the tests with hostile files share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fuzz.judging import Worker


@pytest.fixture(scope="session")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """A process that runs commands."""
    process = Worker(tmp_path_factory.mktemp("fuzz"))
    yield process
    process.close()
