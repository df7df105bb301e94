"""What a set of tools of one episode has to offer."""

from __future__ import annotations

from typing import Protocol

from openeta_exp.domain.tool import ToolCall, ToolResult, ToolSpec


class ToolBox(Protocol):
    """Tools that share state, owned by one episode. None of them changes the world."""

    @property
    def specs(self) -> tuple[ToolSpec, ...]: ...

    async def run(self, call: ToolCall) -> ToolResult:
        """Carry out a call of one of `specs`. Bad arguments are an unsuccessful result.

        Raises:
            InfrastructureError: A service the tool needs did not answer.
        """
        ...
