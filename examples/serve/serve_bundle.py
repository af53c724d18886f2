"""Serve a bundle over HTTP with Ray Serve: POST an .npz of its inputs, get an .npz of its outputs.

python serve_bundle.py BUNDLE [--port 8000] [--most 32] [--wait-ms 5]

GET answers with what is served. A bundle that is built anew in its place is loaded and replaces the old one between two
batches. SIGTERM and Ctrl-C end the service after the requests that it has taken; later ones get 503 with Retry-After.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import io
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import ffn_export as fx
from batching import Arrays, Batching

# Serve's switches, read when it is imported; a cluster has its own.
SWITCHES = {
    "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1",  # for small and many requests
    "RAY_SERVE_ENABLE_DIRECT_INGRESS": "0",  # no further ports
    "RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH": "unavailable.middlewares",
    # By default a proxy that is not there after three times 5 s is ended and started again. Its imports alone take
    # longer where other processes keep the processors busy.
    "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "60",
    "RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S": "60",
}
for switch, value in SWITCHES.items():
    os.environ.setdefault(switch, value)
try:
    import ray
    from ray import serve
    from ray.util import metrics
    from starlette.requests import Request
    from starlette.responses import JSONResponse, PlainTextResponse, Response
except ImportError as error:
    sys.exit(f"this needs Ray Serve: pip install 'ray[serve]' ({error})")

APP = "bundle"
LOOK = 1.0  # seconds between two looks at whether the bundle was replaced
GRACE = 60.0  # seconds for the requests that were taken before the service ends
log = logging.getLogger("ray.serve")


class Loaded:
    """A bundle with its session and its way of batching."""

    def __init__(self, directory: Path, threads: int | None) -> None:
        self.stamp = stamp(directory)
        self.session = fx.load(directory, threads=threads)
        self.manifest: Mapping[str, Any] = self.session.manifest.to_dict()
        self._batching = Batching(self.manifest)

    def run(self, requests: Sequence[Arrays]) -> list[dict[str, np.ndarray] | str]:
        """Return the outputs of each request, or what is wrong with it."""
        answers: list[dict[str, np.ndarray] | str] = [""] * len(requests)
        for numbers in self._batching.groups(requests):
            together = [requests[number] for number in numbers]
            for number, answer in zip(numbers, self._answers(together), strict=True):
                answers[number] = answer
        return answers

    def _answers(self, requests: Sequence[Arrays]) -> Sequence[dict[str, np.ndarray] | str]:
        try:
            if len(requests) == 1:
                return [self.session.run(requests[0])]
            return self._batching.split(self.session.run(self._batching.join(requests)), requests)
        except (fx.UsageError, ValueError) as error:
            if len(requests) == 1:
                return [str(error)]
            return [self._answers([request])[0] for request in requests]  # one of them is wrong, and not the others


class Service:
    """A replica of the service.

    Args:
        bundle: The bundle.
        most: Largest number of requests in a run.
        wait: Seconds that a request waits for others.
        threads: Intra-op threads; None means all processors of this process.
    """

    def __init__(self, bundle: str, most: int, wait: float, threads: int | None) -> None:
        self._directory, self._threads = Path(bundle), threads
        self._loaded = Loaded(self._directory, threads)
        self._answer = serve.batch(max_batch_size=most, batch_wait_timeout_s=wait)(self._run)
        self._sizes = metrics.Histogram(
            "bundle_batch_requests", "requests in one run", boundaries=[1, 2, 4, 8, 16, 32, 64, 128]
        )

    async def __call__(self, request: Request) -> Response:
        """Answer a request of HTTP."""
        if request.method == "GET":
            return JSONResponse({"bundle": self._loaded.manifest["name"], "manifest": self._loaded.stamp})
        try:
            answer = await self._answer(arrays(await request.body()))
        except ValueError:
            answer = "the body is no .npz file of arrays"
        if isinstance(answer, str):
            return PlainTextResponse(answer, status_code=400)
        return Response(body(answer), media_type="application/octet-stream")

    async def _run(self, requests: list[Arrays]) -> list[dict[str, np.ndarray] | str]:
        self._sizes.observe(len(requests))
        return await asyncio.to_thread(self._loaded.run, requests)

    async def check_health(self) -> None:
        """Load the bundle again if it was replaced; Serve calls this every second."""
        try:
            if stamp(self._directory) != self._loaded.stamp:
                self._loaded = await asyncio.to_thread(Loaded, self._directory, self._threads)
        except (OSError, fx.FfnExportError) as error:  # the one that is loaded goes on
            log.warning("the new bundle is not taken: %s", error)


def stamp(directory: Path) -> str:
    """Return the hash of a bundle's manifest, which holds those of its files."""
    return hashlib.sha256((directory / "manifest.json").read_bytes()).hexdigest()


def arrays(data: bytes) -> dict[str, np.ndarray]:
    """Read the body of a request or an answer.

    Raises:
        ValueError: If it is no ``.npz`` file of arrays.
    """
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            return dict(file)
    except Exception as error:  # whatever the parts of a file that is none raise
        raise ValueError(str(error)) from error


def body(named: Arrays) -> bytes:
    """Write the body of a request or an answer."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **named)
    return buffer.getvalue()


def main() -> int:
    """Serve until a signal; return the exit status."""
    parser = argparse.ArgumentParser(description="Serve a bundle over HTTP with Ray Serve.")
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--most", type=int, default=32, help="requests in a run; 1 means no batching")
    parser.add_argument("--wait-ms", type=float, default=5, help="how long a request waits for others")
    parser.add_argument("--threads", type=int, help="of the session; all processors by default")
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--ray", metavar="ADDRESS", help="a Ray cluster; one on this machine by default")
    given = parser.parse_args()
    try:
        stamp(given.bundle)
    except OSError as error:
        print(f"no bundle: {error}", file=sys.stderr)
        return 2
    own: dict[str, Any] = {} if given.ray else {"include_dashboard": False, "object_store_memory": 2**27}
    ray.init(address=given.ray or "local", logging_level=logging.ERROR, log_to_driver=False, **own)
    try:
        quiet = {"enable_access_log": False}  # a line for each request
        serve.start(http_options={"host": given.host, "port": given.port}, logging_config=quiet)
        deployment = serve.deployment(
            name="Service",
            num_replicas=given.replicas,
            max_ongoing_requests=10_000,
            health_check_period_s=LOOK,
            health_check_timeout_s=GRACE,
            graceful_shutdown_timeout_s=GRACE,
            graceful_shutdown_wait_loop_s=0.1,
            logging_config=quiet,
        )(Service)
        bundle = str(given.bundle.absolute())
        serve.run(deployment.bind(bundle, given.most, given.wait_ms / 1e3, given.threads), name=APP, route_prefix="/")
        ended = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):  # now: Ray has set its own
            signal.signal(number, lambda *_: ended.set())
        node = ray.nodes()[0]
        where = {
            "url": f"http://{given.host}:{given.port}/",
            "health": f"http://{given.host}:{given.port}/-/healthz",
            "metrics": f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics",
        }
        print(json.dumps(where), flush=True)
        ended.wait()
        serve.delete(APP)  # after the requests that it has taken
    finally:
        serve.shutdown()
        ray.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
