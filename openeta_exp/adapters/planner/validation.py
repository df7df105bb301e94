"""Whether a decision may be carried out at all: known tools, right shape, lawful batch."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from openeta_exp.domain.decision import CallTools, Decision
from openeta_exp.domain.record import canonical_json, parse_json
from openeta_exp.domain.tool import ToolCall, ToolEffect, ToolSpec

if TYPE_CHECKING:
    from jsonschema.protocols import Validator


def check_decision(decision: Decision, tools: Mapping[str, ToolSpec]) -> tuple[str, ...]:
    """Everything wrong with a decision, one sentence each; empty if it may be carried out."""
    if not isinstance(decision, CallTools):
        return ()
    problems: list[str] = []
    for call in decision.calls:
        tool = tools.get(call.name)
        if tool is None:
            problems.append(f"there is no tool `{call.name}`; there are {sorted(tools)}")
            continue
        problems.extend(_argument_problems(call, tool))
        if len(decision.calls) > 1 and tool.effect is ToolEffect.WORLD_MUTATING:
            problems.append(f"`{call.name}` changes the world: call it alone, one per turn")
    return tuple(problems)


def _argument_problems(call: ToolCall, tool: ToolSpec) -> list[str]:
    validator = _validator(canonical_json(tool.parameters))
    return [
        f"{call.name}.{'.'.join(map(str, error.absolute_path)) or 'parameters'}: {error.message}"
        for error in validator.iter_errors(call.arguments)
    ]


def load_jsonschema() -> None:
    """Import it now rather than with the first decision, when every episode would wait for it."""
    import jsonschema  # noqa: F401


@lru_cache(maxsize=64)
def _validator(schema: bytes) -> Validator:
    """Compiled once per schema: compiling costs far more than checking."""
    from jsonschema import Draft202012Validator

    return Draft202012Validator(parse_json(schema))
