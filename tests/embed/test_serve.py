"""The service of ``examples/serve`` over HTTP: every answer is that of the bundle alone, and none is lost."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn

import ffn_export as fx
from tests.embed.programs import EXAMPLES

SERVE = EXAMPLES / "serve"
MASKED = {"x": "float32[batch>=1,seq>=1,16]", "mask": "bool[batch>=1,seq>=1]{mask}"}


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, activation="gelu", batch_first=True)

    def forward(self, x: Any, mask: Any) -> Any:
        return self.layer(x, src_key_padding_mask=~mask)


def build(directory: Path, seed: int) -> Path:
    import torch

    torch.manual_seed(seed)
    given = {"name": "encoder", "directory": directory, "fast": True, "bench_budget": 0.0}
    return fx.build(Encoder().eval(), MASKED, **given).directory  # type: ignore[arg-type]


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module that measures, as ``python measure.py`` imports it."""
    pytest.importorskip("ray.serve", reason="the extra 'serve' is not installed")
    monkeypatch.syspath_prepend(SERVE)
    monkeypatch.syspath_prepend(EXAMPLES / "python")
    import measure

    return measure


@contextmanager
def serving(bundle: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, str]]]:
    """Start the service on a free port; yield its process and its addresses."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    words = [sys.executable, "serve_bundle.py", str(bundle), "--port", str(port), *options]
    env = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
    with subprocess.Popen(words, cwd=SERVE, env=env, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert select.select([process.stdout], [], [], 240)[0], "it does not start"
            told = next(line for line in process.stdout if line.startswith("{"))  # Ray may say something before
            yield process, json.loads(told)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(120)


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return str(answer.read().decode())


def requests_of(tools: Any, session: fx.Session, count: int) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    manifest = session.manifest.to_dict()
    sizes = [{"batch": int(rng.integers(1, 4)), "seq": int(rng.integers(1, 25))} for _ in range(count)]
    return [tools.drawn(manifest, each, rng) for each in sizes]


def wrong(tools: Any, answers: Any, requests: Any, *sessions: fx.Session) -> int:
    """Return the number of answers that are not those of one of the bundles alone."""

    def is_right(answer: Any, request: Any, session: fx.Session) -> bool:
        return bool(tools.judged("y", answer["y"], session.run(request)["y"], session.manifest.to_dict())[0])

    pairs = zip(answers, requests, strict=True)
    return sum(not any(is_right(*pair, session) for session in sessions) for pair in pairs)


@pytest.mark.integration
def test_a_thousand_requests_at_once_while_the_bundle_is_replaced(tools: Any, tmp_path: Path) -> None:
    bundle = build(tmp_path / "served", seed=0)
    session = fx.load(bundle, threads=1)
    requests = requests_of(tools, session, 1000)
    with serving(bundle, "--threads", "1") as (process, at):
        assert get(at["health"]) == "success"
        answers, told = asyncio.run(tools.served(at["url"], requests))
        _, before = tools.alone(session, requests)
        print(f"\n{before}\n{told}")
        assert wrong(tools, answers, requests, session) == 0

        with pytest.raises(urllib.error.HTTPError, match="400"):
            urllib.request.urlopen(at["url"], b"no arrays", timeout=60)
        bad = {**requests[0], "x": requests[0]["x"][..., :3]}
        with pytest.raises(Exception, match="400"):
            asyncio.run(tools.served(at["url"], [requests[0], bad, requests[1]]))

        old = get(at["url"])
        other = fx.load(build(tmp_path / "served", seed=1), threads=1)
        while get(at["url"]) == old:
            answers, _ = asyncio.run(tools.served(at["url"], requests[:20]))
            assert wrong(tools, answers, requests[:20], session, other) == 0
        answers, _ = asyncio.run(tools.served(at["url"], requests[:50]))
        assert wrong(tools, answers, requests[:50], other) == 0

        lines = wait_for(lambda: [line for line in get(at["metrics"]).splitlines() if "bundle_batch_requests" in line])
        (count,) = (float(line.split()[-1]) for line in lines if "_count{" in line)
        (total,) = (float(line.split()[-1]) for line in lines if "_sum{" in line)
        assert total > 1.5 * count, "most requests ran together"

        answered: list[int] = []
        found: list[Any] = []
        asking = threading.Thread(
            target=lambda: found.extend(asyncio.run(each(tools, at["url"], requests[:200], answered)))
        )
        asking.start()
        wait_for(lambda: len(answered) >= 100, seconds=0.01)
        process.send_signal(signal.SIGTERM)
        asking.join(120)
        assert len(found) == len(answered) == 200, "none is cut off"
        assert set(answered) <= {200, 503}, "what no replica had taken is told so"
        taken = [(answer, request) for answer, request in zip(found, requests, strict=False) if answer is not None]
        assert len(taken) == answered.count(200) >= 100
        assert wrong(tools, [answer for answer, _ in taken], [request for _, request in taken], other) == 0
        assert process.wait(120) == 0


async def each(tools: Any, url: str, requests: list[dict[str, np.ndarray]], answered: list[int]) -> list[Any]:
    """Send requests at once and return the answers, None for one that is refused.

    ``answered`` gets the status of each as it comes.
    """
    import aiohttp

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:

        async def ask(data: bytes) -> Any:
            async with client.post(url, data=data) as answer:
                read = await answer.read()
                assert answer.status == 200 or answer.headers["Retry-After"] == "1"
                answered.append(answer.status)
                return tools.arrays(read) if answer.status == 200 else None

        return await asyncio.gather(*(ask(tools.body(request)) for request in requests))


def wait_for(look: Any, seconds: float = 1) -> Any:
    """Return what is found, as soon as there is any: metrics are exported every few seconds."""
    for _ in range(round(60 / seconds)):
        found = look()
        if found:
            return found
        time.sleep(seconds)
    raise AssertionError("nothing came")


@pytest.mark.parametrize(("status", "told"), [(200, 200), (400, 400), (404, 503), (503, 503)])
def test_a_path_without_an_application_is_unavailable(tools: Any, status: int, told: int) -> None:
    from starlette.responses import PlainTextResponse

    from unavailable import Unavailable

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request"}

    asyncio.run(Unavailable(PlainTextResponse("said", status))({"type": "http"}, receive, send))
    start, *bodies = sent
    assert start["status"] == told
    assert ((b"retry-after", b"1") in start["headers"]) == (told == 503)
    assert [each["body"] for each in bodies] == [b"the service starts or ends" if told == 503 else b"said"]


def test_lengths_are_padded_where_a_bundle_has_a_mask_only(tools: Any) -> None:
    from batching import Batching

    def tensor(name: str, *shape: Any) -> dict[str, Any]:
        return {"name": name, "dtype": "float32", "shape": list(shape)}

    x, mask, y = tensor("x", "batch", "seq", 2), tensor("mask", "batch", "seq"), tensor("y", "batch", "seq", 2)
    source = {"inputs": {"x": "float32[batch,seq,2]", "mask": "bool[batch,seq]{mask}"}}
    masked = Batching({"inputs": [x, mask], "outputs": [y, tensor("pooled", "batch", 2)], "source": source})
    requests = [
        {"x": np.full((rows, length, 2), rows, np.float32), "mask": np.ones((rows, length), bool)}
        for rows, length in ((1, 3), (2, 5))
    ]
    assert masked.groups(requests) == [[0, 1]]
    joined = masked.join(requests)
    assert joined["x"].shape == (3, 5, 2)
    assert joined["mask"].sum(1).tolist() == [3, 5, 5]
    first, second = masked.split({"y": joined["x"], "pooled": joined["x"][:, 0]}, requests)
    assert (first["y"].shape, second["y"].shape, second["pooled"].shape) == ((1, 3, 2), (2, 5, 2), (2, 2))
    assert all((each["y"] == request["x"]).all() for each, request in zip((first, second), requests, strict=True))

    plain = Batching({"inputs": [x], "outputs": [y], "source": {"inputs": {"x": "float32[batch,seq,2]"}}})
    alone = [{"x": request["x"]} for request in (*requests, requests[0])]
    assert plain.groups(alone) == [[0, 2], [1]]
    fixed = Batching({"inputs": [tensor("x", 4)], "outputs": [y], "source": {"inputs": {"x": "float32[4]"}}})
    assert fixed.groups([{"x": np.ones(4)}] * 2) == [[0], [1]]


@pytest.mark.integration
def test_without_a_bundle_it_is_one_line(tools: Any, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "serve_bundle.py", str(tmp_path)], cwd=SERVE, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("no bundle: ")
