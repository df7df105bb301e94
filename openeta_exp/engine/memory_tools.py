"""The session's memory as tools. Host state is in none of its drawers."""

from __future__ import annotations

from pydantic import JsonValue

from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.memory import (
    KEPT_ENTRIES,
    MAX_KEY_CHARACTERS,
    MAX_VALUE_CHARACTERS,
    MemoryEntry,
    Namespace,
)
from openeta_exp.domain.tool import ToolCall, ToolEffect, ToolResult, ToolSpec, refused
from openeta_exp.engine.host import EpisodeHost
from openeta_exp.ports.session_log import SessionLog

_NAMESPACE: JsonObject = {"type": "string", "enum": [each.value for each in Namespace]}
_KEY: JsonObject = {"type": "string", "minLength": 1, "maxLength": MAX_KEY_CHARACTERS}


def _spec(name: str, description: str, required: list[str], **properties: JsonValue) -> ToolSpec:
    return ToolSpec(
        name=name,
        description=description,
        effect=ToolEffect.BOOKKEEPING,
        parameters={
            "type": "object",
            "properties": properties,
            "required": list[JsonValue](required),
            "additionalProperties": False,
        },
    )


SAVE = _spec(
    "save_memory",
    f"Keep a value for this session, at most {MAX_VALUE_CHARACTERS} characters.",
    ["namespace", "key", "value"],
    namespace=_NAMESPACE,
    key=_KEY,
    value={},
)
GET = _spec(
    "get_memory",
    "Read one value, one namespace, or everything.",
    [],
    namespace=_NAMESPACE,
    key=_KEY,
)
DELETE = _spec(
    "delete_memory", "Forget a value.", ["namespace", "key"], namespace=_NAMESPACE, key=_KEY
)
COMPACT = _spec(
    "compact_memory",
    f"Keep the newest {KEPT_ENTRIES} values and one line of each older one.",
    [],
)


class MemoryTools:
    """Reads and writes the memory of one session, through to its folder."""

    specs = (SAVE, GET, DELETE, COMPACT)

    def __init__(self, host: EpisodeHost, log: SessionLog) -> None:
        self._host = host
        self._log = log

    async def run(self, call: ToolCall) -> ToolResult:
        match call.name:
            case SAVE.name:
                return self._save(call)
            case DELETE.name:
                return self._delete(call)
            case COMPACT.name:
                self._host.memory = self._host.memory.compacted()
                self._log.keep_memory(self._host.memory)
                return _done(call, {"entries": len(self._host.memory.entries)})
            case _:
                return self._get(call)

    def _save(self, call: ToolCall) -> ToolResult:
        namespace, key = _place(call)
        try:
            entry = MemoryEntry(namespace=namespace, key=key, value=call.arguments.get("value"))
            self._host.memory = self._host.memory.saved(entry)
        except ValueError as error:
            return _refused(call, "memory_value_refused", str(error))
        self._log.keep_memory(self._host.memory)
        return _done(call, {"saved": f"{namespace}/{key}"})

    def _delete(self, call: ToolCall) -> ToolResult:
        namespace, key = _place(call)
        if self._host.memory.get(namespace, key) is None:
            return _refused(call, "unknown_memory", f"there is no {namespace}/{key}")
        self._host.memory = self._host.memory.without(namespace, key)
        self._log.keep_memory(self._host.memory)
        return _done(call, {"deleted": f"{namespace}/{key}"})

    def _get(self, call: ToolCall) -> ToolResult:
        named = call.arguments.get("namespace")
        namespace = None if named is None else Namespace(str(named))
        key = call.arguments.get("key")
        found: JsonObject = {
            f"{each.namespace}/{each.key}": each.value
            for each in self._host.memory.of(namespace)
            if key is None or each.key == key
        }
        if key is not None and not found:
            return _refused(call, "unknown_memory", f"there is no {namespace or '*'}/{key}")
        return _done(call, {"entries": found, "summary": self._host.memory.summary})


def _place(call: ToolCall) -> tuple[Namespace, str]:
    """The arguments were checked against the schema when the decision was."""
    return Namespace(str(call.arguments["namespace"])), str(call.arguments["key"])


def _done(call: ToolCall, outputs: JsonObject) -> ToolResult:
    return ToolResult(call=call, effect=ToolEffect.BOOKKEEPING, success=True, outputs=outputs)


def _refused(call: ToolCall, code: str, message: str) -> ToolResult:
    return refused(call, ToolEffect.BOOKKEEPING, code=code, message=message)
