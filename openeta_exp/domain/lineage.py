"""What a generation starts from, fixed for good once it has begun."""

from __future__ import annotations

from pydantic import Field

from openeta_exp.domain.identity import Digest, JsonObject
from openeta_exp.domain.record import Record
from openeta_exp.errors import SettingsError


class GenerationRecord(Record):
    """`generation.json`: the same experiment id must find the same facts again."""

    experiment_id: str
    generation: int
    baseline_digest: Digest
    behaviour: JsonObject
    """The settings that influence what an episode does."""
    design: JsonObject = Field(default_factory=dict)
    """What decides how candidates are judged: manifests, gate, length. Empty as long as the
    generation has only been run and not iterated."""


def differences(before: GenerationRecord, now: GenerationRecord) -> tuple[str, ...]:
    """What has changed, one line per field; empty if nothing has."""
    found: list[str] = []
    if before.baseline_digest != now.baseline_digest:
        found.append(f"baseline: {before.baseline_digest[:12]} became {now.baseline_digest[:12]}")
    if before.behaviour:
        found += changes(before.behaviour, now.behaviour)
    if before.design and now.design:
        found += changes(before.design, now.design)
    return tuple(found)


def check_unchanged(before: GenerationRecord, now: GenerationRecord) -> None:
    """Raises: SettingsError: Listing every difference."""
    changed = differences(before, now)
    if changed:
        raise SettingsError(
            [
                f"experiment_id = {now.experiment_id}: has begun with other settings; use "
                "another experiment_id, or go back to them:",
                *(f"  {line}" for line in changed),
            ]
        )


def changes(before: JsonObject, now: JsonObject) -> list[str]:
    """What differs, one line per field under its dotted name; empty if nothing does."""
    flat_before, flat_now = _flat(before), _flat(now)
    return [
        f"{name}: {flat_before.get(name)} became {flat_now.get(name)}"
        for name in sorted(flat_before.keys() | flat_now.keys())
        if flat_before.get(name) != flat_now.get(name)
    ]


def _flat(value: JsonObject, prefix: str = "") -> dict[str, str]:
    rows: dict[str, str] = {}
    for key, each in value.items():
        if isinstance(each, dict):
            rows.update(_flat(each, f"{prefix}{key}."))
        else:
            rows[f"{prefix}{key}"] = repr(each)
    return rows
