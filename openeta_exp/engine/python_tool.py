"""The agent's Python: calculates on what was seen, in a process of its own that reaches nothing."""

from __future__ import annotations

from pathlib import Path

from pydantic import JsonValue

from openeta_exp.domain.tool import Diagnostic, ToolCall, ToolEffect, ToolResult, ToolSpec, refused
from openeta_exp.engine.host import EpisodeHost
from openeta_exp.ports.sandbox import Sandbox, SandboxLimits
from openeta_exp.ports.session_log import SessionLog
from openeta_exp.wire.planner_context import observation_json

MAX_CODE_CHARACTERS = 20_000
MAX_TIMEOUT_S = 30.0
SHOWN_CHARACTERS = 4_000
MAX_FOLDER_BYTES = 64 * 1024 * 1024
MAX_FOLDER_FILES = 1_000

PYTHON_EXEC = ToolSpec(
    name="python_exec",
    description="Run Python on `observation` (JSON, as in your context). Files only below "
    "/sandbox; no network, no robot, no packages. The value of the last expression comes back.",
    effect=ToolEffect.BOOKKEEPING,
    parameters={
        "type": "object",
        "properties": {
            "code": {"type": "string", "minLength": 1, "maxLength": MAX_CODE_CHARACTERS},
            "sandbox": {"type": "string", "description": "Only `session` is offered."},
            "timeout_s": {"type": "number", "exclusiveMinimum": 0, "maximum": MAX_TIMEOUT_S},
        },
        "required": list[JsonValue](["code"]),
        "additionalProperties": False,
    },
)


class PythonTools:
    """`python_exec` of one episode."""

    specs = (PYTHON_EXEC,)

    def __init__(self, sandbox: Sandbox, host: EpisodeHost, log: SessionLog) -> None:
        self._sandbox = sandbox
        self._host = host
        self._log = log

    async def run(self, call: ToolCall) -> ToolResult:
        """Raises: StoreError: The session's sandbox folder cannot be used."""
        if call.arguments.get("sandbox") not in (None, "session"):
            return refused(
                call,
                PYTHON_EXEC.effect,
                code="outside_sandbox_refused",
                message="code runs inside the session's sandbox; no profile grants more",
            )
        folder = self._log.sandbox()
        if _is_full(folder):
            return refused(
                call,
                PYTHON_EXEC.effect,
                code="sandbox_full",
                message=f"/sandbox holds {MAX_FOLDER_FILES} files or {MAX_FOLDER_BYTES} bytes",
            )
        timeout_s = call.arguments.get("timeout_s")
        limits = SandboxLimits()
        if isinstance(timeout_s, int | float):
            limits = SandboxLimits(duration_s=float(timeout_s))
        done = await self._sandbox.run(
            str(call.arguments["code"]),
            inputs={"observation": observation_json(self._host.observation)},
            folder=folder,
            limits=limits,
        )
        printed = done.printed
        if len(printed) > SHOWN_CHARACTERS:
            printed = f"{printed[:SHOWN_CHARACTERS]}\n[cut: {len(done.printed)} characters]"
        return ToolResult(
            call=call,
            effect=PYTHON_EXEC.effect,
            success=done.code is None,
            outputs={"value": done.value, "printed": printed},
            diagnostics=()
            if done.code is None
            else (Diagnostic(code=done.code, message=done.message),),
        )


def _is_full(folder: Path) -> bool:
    """Symbolic links are counted as what they are and never followed."""
    size = 0
    for files, path in enumerate(folder.rglob("*"), start=1):
        size += path.lstat().st_size
        if files >= MAX_FOLDER_FILES or size >= MAX_FOLDER_BYTES:
            return True
    return False
