"""Answer 503 with Retry-After where Ray Serve has no application: it has not started yet, or it ends.

Serve's proxy answers 404 as soon as an application is being deleted, while its replicas end their last requests. The
service answers every path itself, so that no other 404 exists. The proxy imports this file.
"""

from __future__ import annotations

from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SECONDS = "1"


class Unavailable:
    """The proxy's application, with its 404 and 503 as 503 with Retry-After."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        refused = False

        async def answer(message: Message) -> None:
            nonlocal refused
            if message["type"] == "http.response.start" and message["status"] in (404, 503):
                refused = True
                told = PlainTextResponse(
                    "the service starts or ends", status_code=503, headers={"Retry-After": SECONDS}
                )
                await told(scope, receive, send)
            elif not refused:
                await send(message)

        await self._app(scope, receive, answer)


def middlewares() -> list[Middleware]:
    """Return what Serve's proxy wraps its application in."""
    return [Middleware(Unavailable)]
