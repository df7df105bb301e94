"""A model server's own account of what it answered."""

from __future__ import annotations

import json

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Charging:
    """A web application that remembers the tokens its answers say they cost.

    Attributes:
        charges: Of each answer that says so, in order.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.charges: list[int] = []

    @property
    def tokens(self) -> int:
        return sum(self.charges)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def counted(message: Message) -> None:
            if message["type"] == "http.response.body" and message.get("body"):
                said = json.loads(message["body"])
                if "usage" in said:
                    self.charges.append(said["usage"]["total_tokens"])
            await send(message)

        await self._app(scope, receive, counted)
