"""The command that runs one episode of a comparison again."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Collection, Iterator

from pydantic import JsonValue

from openeta_exp.adapters.store.layout import ComparisonLayout
from openeta_exp.domain.record import Record, digest
from openeta_exp.settings.catalog import (
    CallablePolicySettings,
    EmbeddedCatalogSettings,
    PlannerPolicySettings,
    PolicySettings,
    VlaEvalPolicySettings,
)
from openeta_exp.settings.experiment import ExperimentSettings
from openeta_exp.wire.override_text import override_text

PLANNER_SECTIONS = (
    "approvement",
    "agent",
    "sandbox",
    "simulator",
    "perception",
    "provider",
    "planner",
    "baseline",
)
"""Settings that decide what a planner's episode does. `on_need_human` does too, and is always the
same in a comparison."""
_FROM_ENVIRONMENT = ("sam3_url", "anygrasp_url")
"""Fields that conf/ fills in if nothing is said of them."""
_PLAIN = re.compile(r"(?!(?i:null|true|false|nan|inf)$)[A-Za-z_/][A-Za-z0-9_./-]*")
"""A text that Hydra reads as itself."""
_NOT_REPEATED = {"kind", "path"}
_REPLAY = re.compile(r"-replay-[0-9a-f]{8}$")
_LONGEST_ID = 80


def replay_command(
    settings: ExperimentSettings, episode_id: str, *, layout: ComparisonLayout
) -> str:
    """A shell command, for the directory and the environment this one was started in.

    It has an experiment of its own, so that both policies run again, and runs the checks too.
    Whatever decides what an episode does is part of it, so the arms are the same. A tree of the
    registry is the exception: it is what is validated there when the command runs.
    """
    words = [
        "python -m openeta_exp command=compare",
        *_catalog(settings, layout),
        *(word for name, policy in settings.policies.items() for word in _policy(name, policy)),
        *_planner(settings),
        *_places(settings),
        f"episodes=[{_value(episode_id)}]",
        f"experiment_id={_replay_id(settings.experiment_id, episode_id)}",
        "fresh=true",
    ]
    return " ".join([words[0], *map(shlex.quote, words[1:])])


def _replay_id(experiment_id: str, episode_id: str) -> str:
    """One for each episode: an experiment keeps the episodes it has begun with."""
    base = _REPLAY.sub("", experiment_id)[:_LONGEST_ID]
    return f"{base}-replay-{digest(episode_id)[:8]}"


def _catalog(settings: ExperimentSettings, layout: ComparisonLayout) -> Iterator[str]:
    catalog = settings.catalog
    assert catalog is not None, "the rules across sections ask for it"
    if isinstance(catalog, EmbeddedCatalogSettings):
        yield "catalog=embedded"
        yield f"manifest.path={_value(str(layout.episodes))}"
    else:
        yield f"catalog.path={_value(str(catalog.path))}"
    yield from _fields("catalog", catalog, leave_out=_NOT_REPEATED)


def _policy(name: str, policy: PolicySettings) -> Iterator[str]:
    """In the short form where there is one."""
    match policy:
        case CallablePolicySettings(target=target):
            yield f"policy@{name}={target}"
            left = {"kind", "target"}
        case VlaEvalPolicySettings(url=url):
            yield f"policy@{name}={url}"
            left = {"kind", "url"}
        case _:
            yield f"policy@{name}={policy.kind}"
            left = {"kind"}
    yield from _fields(name, policy, leave_out=left)


def _planner(settings: ExperimentSettings) -> Iterator[str]:
    """What a planner among the arms plans with, sees and may do."""
    if not any(isinstance(each, PlannerPolicySettings) for each in settings.policies.values()):
        return
    for name in PLANNER_SECTIONS:
        section: Record = getattr(settings, name)
        kind, usual = (getattr(each, "kind", None) for each in (section, _default(name)))
        if kind != usual:
            yield f"{name}={kind}"
        yield from _fields(name, section, leave_out={"kind"}, always=_FROM_ENVIRONMENT)


def _default(section: str) -> Record:
    found = ExperimentSettings.model_fields[section].get_default(call_default_factory=True)
    assert isinstance(found, Record), "every section of a planner has a default"
    return found


def _places(settings: ExperimentSettings) -> Iterator[str]:
    """Where results go, and the registry from which a baseline may come."""
    for name in ("output_root", "registry_root"):
        if getattr(settings, name) != ExperimentSettings.model_fields[name].default:
            yield f"{name}={_value(str(getattr(settings, name)))}"


def _fields(
    prefix: str,
    section: Record,
    *,
    leave_out: Collection[str],
    always: Collection[str] = (),
) -> Iterator[str]:
    """Overrides for whatever is not at its default.

    Args:
        always: Fields to state at their default too.
    """
    given = section.model_dump(mode="json")
    for name, field in type(section).model_fields.items():
        usual = getattr(section, name) == field.get_default(call_default_factory=True)
        if name in leave_out or (usual and name not in always):
            continue
        yield f"{prefix}.{name}={_value(given[name])}"


def _value(value: JsonValue) -> str:
    """A value as Hydra reads it."""
    match value:
        case str():
            return value if _PLAIN.fullmatch(value) else override_text(value)
        case dict():
            return f"{{{', '.join(f'{_value(k)}: {_value(v)}' for k, v in value.items())}}}"
        case list():
            return f"[{', '.join(map(_value, value))}]"
        case _:
            return json.dumps(value)
