"""A manifest file <-> `Manifest`: strict, and with every mistake of the file at once.

The file is a list of rows, or an object with `episodes` and optionally `schema_version`, `split`
and `defaults` (fields that every row has unless it says otherwise).
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    StringConstraints,
    ValidationError,
    field_validator,
    model_validator,
)

from openeta_exp.domain.budget import Budget
from openeta_exp.domain.identity import Digest, EpisodeId, JsonObject
from openeta_exp.domain.manifest import EpisodeSpec, Manifest, Split, canonical_env_id
from openeta_exp.errors import ManifestError
from openeta_exp.wire.document import DocumentError, read_document
from openeta_exp.wire.explain import nearest, printable, sentence, show

SCHEMA_VERSION = "openeta_exp.manifest.v1"

_FILE_FIELDS = ("schema_version", "split", "defaults", "episodes")
_JSON_TYPES = frozenset({"list", "dict", "str", "bool", "int", "float"})
_MAX_COUNT = 10**12
_MAX_TIMEOUT_S = 1e7
_MAX_SEEDS = 100_000

_HOST_CONTROLS = {
    "agent_session_id": "sessions are named by the run",
    "workspace_root": "use output_root=DIR",
    "workspace_parent": "use output_root=DIR",
    "legacy_memory_root": "use output_root=DIR",
    "legacy_artifact_root": "use output_root=DIR",
    "source_skills_root": "use baseline.tree=DIR",
    "source_grasp_strategies_root": "use baseline.tree=DIR",
    "source_task_playbooks_root": "use baseline.tree=DIR",
    "calibration_profile_path": "use baseline.tree=DIR",
    "on_need_human": "use on_need_human=fail or on_need_human=pause",
    "require_official_reward": "success is always the environment checker's word",
    "human_intervention_count": "interventions are counted by the run",
    "guidance_intervention_count": "interventions are counted by the run",
    "resume_existing": "a run continues by itself; use fresh=true to start over",
}
"""Metadata that steered the original's host. Tags are inert here, so each names its setting."""


Words = Annotated[str, StringConstraints(strip_whitespace=True)]


class _Seeds(BaseModel):
    """A range of seeds, both ends included."""

    model_config = ConfigDict(extra="forbid", strict=True)

    first: int = Field(ge=0, lt=2**32)
    last: int = Field(ge=0, lt=2**32)

    @model_validator(mode="after")
    def _is_a_range(self) -> Self:
        if not 0 <= self.last - self.first < _MAX_SEEDS:
            raise ValueError(f"last must be first or more, and the range at most {_MAX_SEEDS} long")
        return self


class _Row(BaseModel):
    """One row as it may stand in a file; one episode, or one for each of its `seeds`."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    task: Words = Field(min_length=1)
    env_id: Words = Field(min_length=1)
    episode_id: Words = Field(default="", max_length=200)
    seed: int = Field(default=0, ge=0, lt=2**32)
    seeds: _Seeds | None = None
    """One episode per seed, named `<episode_id>-<seed>`."""
    repeat: int = Field(default=0, ge=0, le=_MAX_COUNT)
    max_turns: int = Field(default=Budget().max_turns, ge=1, le=_MAX_COUNT)
    max_tool_calls: int = Field(default=Budget().max_tool_calls, ge=1, le=_MAX_COUNT)
    timeout_s: float = Field(default=Budget().timeout_s, gt=0, le=_MAX_TIMEOUT_S)
    max_total_tokens: int = Field(default=Budget().max_total_tokens, ge=1, le=_MAX_COUNT)
    scenario: JsonObject = Field(default_factory=dict)
    metadata: JsonObject = Field(default_factory=dict)

    @field_validator("env_id")
    @classmethod
    def _has_one_spelling(cls, env_id: str) -> str:
        # An environment under two names would pass for two environments.
        if (spelling := canonical_env_id(env_id)) != env_id:
            raise ValueError(f"must be written {spelling}")
        return env_id

    def specs(self, *, default_id: str) -> list[EpisodeSpec]:
        name = self.episode_id or default_id
        if self.seeds is None:
            return [self._spec(name, self.seed)]
        seeds = range(self.seeds.first, self.seeds.last + 1)
        return [self._spec(f"{name}-{seed}", seed) for seed in seeds]

    def _spec(self, episode_id: str, seed: int) -> EpisodeSpec:
        return EpisodeSpec(
            episode_id=EpisodeId(episode_id),
            env_id=self.env_id,
            task=self.task,
            seed=seed,
            repeat=self.repeat,
            budget=Budget(
                max_turns=self.max_turns,
                max_tool_calls=self.max_tool_calls,
                timeout_s=self.timeout_s,
                max_total_tokens=self.max_total_tokens,
            ),
            scenario=self.scenario,
            tags=self.metadata,
        )


def read_manifest(path: Path) -> Manifest:
    """Read a JSON or YAML file.

    Raises:
        ManifestError: With one sentence per mistake: file, episode, field, value and fix.
    """
    try:
        rows = read_document(path)
    except DocumentError as error:
        raise ManifestError([f"{path}: {problem}" for problem in error.problems]) from error
    return parse_manifest(rows, source=str(path))


def parse_manifest(rows: JsonValue, source: str) -> Manifest:
    """Check the plain value of a manifest.

    Raises:
        ManifestError: With one sentence per mistake, each beginning with `source`.
    """
    problems: list[str] = []
    fields = _file_fields(rows, problems)
    split = _split(fields.get("split"), problems)
    defaults = _defaults(fields.get("defaults"), problems)
    specs = _specs(fields.get("episodes"), defaults, problems)
    if problems:
        raise ManifestError([printable(f"{source}: {problem}") for problem in problems])
    return Manifest(episodes=tuple(numbered(specs)), split=split)


def numbered(specs: Sequence[EpisodeSpec]) -> list[EpisodeSpec]:
    """Rows alike in all but their label ask for the same episode again: each after the first gets
    the next free repeat index, so that their outcomes are told apart."""
    taken: defaultdict[Digest, set[int]] = defaultdict(set)
    found: list[EpisodeSpec] = []
    for spec in specs:
        used = taken[spec.model_copy(update={"repeat": 0}).content_digest]
        repeat = spec.repeat
        if repeat in used:
            repeat = next(each for each in itertools.count(len(used)) if each not in used)
            spec = spec.model_copy(update={"repeat": repeat})
        used.add(repeat)
        found.append(spec)
    return found


def render_manifest(manifest: Manifest) -> JsonObject:
    """The plain value from which `parse_manifest` reads the same manifest."""
    episodes: list[JsonValue] = []
    for spec in manifest.episodes:
        row = spec.model_dump(mode="json", exclude={"budget": True, "tags": True})
        episodes.append({**row, **spec.budget.model_dump(mode="json"), "metadata": spec.tags})
    return {
        "schema_version": SCHEMA_VERSION,
        **({} if manifest.split is None else {"split": manifest.split.value}),
        "episodes": episodes,
    }


def _file_fields(rows: JsonValue, problems: list[str]) -> Mapping[str, JsonValue]:
    if isinstance(rows, list):
        return {"episodes": rows}
    if not isinstance(rows, dict):
        problems.append("must be a list of episodes, or an object with `episodes`")
        return {"episodes": None}
    for name in rows:
        if name not in _FILE_FIELDS:
            problems.append(f"{name}: no such field; {nearest(name, _FILE_FIELDS)}")
    version = rows.get("schema_version", SCHEMA_VERSION)
    if version != SCHEMA_VERSION:
        problems.append(f"schema_version = {show(version)}: must be {SCHEMA_VERSION}")
    return rows


def _split(value: JsonValue, problems: list[str]) -> Split | None:
    choices = [each.value for each in Split]
    if value is None or value in choices:
        return None if value is None else Split(value)
    problems.append(f"split = {show(value)}: no such split; {nearest(str(value), choices)}")
    return None


def _defaults(value: JsonValue, problems: list[str]) -> JsonObject:
    """Checked on its own, so that a mistake in it is reported once and not for every row."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        problems.append(f"defaults = {show(value)}: must be an object of episode fields")
        return {}
    if "episode_id" in value:
        problems.append("defaults.episode_id: every episode needs an id of its own; remove it")
    probe = {"task": "-", "env_id": "-", **value}
    wrong = _row_problems(probe)
    problems += [f"defaults.{problem}" for problem in wrong]
    return {} if wrong else value


def _specs(rows: JsonValue, defaults: JsonObject, problems: list[str]) -> list[EpisodeSpec]:
    if not isinstance(rows, list) or not rows:
        if not problems or isinstance(rows, list):
            problems.append("episodes: there are none; list at least one")
        return []
    specs: list[EpisodeSpec] = []
    places: defaultdict[str, list[int]] = defaultdict(list)
    for at, row in enumerate(rows):
        default_id = f"episode-{at:03d}"
        if not isinstance(row, dict):
            problems.append(f"episodes[{at}] = {show(row)}: must be an object of episode fields")
            continue
        given_id = row.get("episode_id")
        named = given_id.strip() if isinstance(given_id, str) else ""
        merged = {**defaults, **row}
        wrong = _row_problems(merged)
        label = f"episodes[{at}] ({named or default_id})"
        problems += [f"{label}: {problem}" for problem in wrong]
        if wrong:
            places[named or default_id].append(at)
            continue
        for spec in _Row.model_validate(merged).specs(default_id=default_id):
            places[spec.episode_id].append(at)
            specs.append(spec)
    problems += [
        f"{_listed(at)} ({episode_id}): episode_id is used more than once; give each its own"
        for episode_id, at in places.items()
        if len(at) > 1
    ]
    return specs


def _row_problems(row: JsonObject) -> list[str]:
    problems = []
    try:
        _Row.model_validate(row)
    except ValidationError as error:
        problems = [
            sentence(_path(each["loc"]), each, known=_Row.model_fields)
            for each in error.errors(include_url=False)
        ]
    if "seed" in row and row.get("seeds") is not None:
        problems.append(f"seed = {show(row['seed'])}: give seed or seeds, not both; remove one")
    metadata = row.get("metadata")
    if isinstance(metadata, dict):
        problems += [
            f"metadata.{name}: metadata is inert and cannot steer the host; {_HOST_CONTROLS[name]}"
            for name in metadata
            if name in _HOST_CONTROLS
        ]
    return problems


def _path(loc: Sequence[int | str]) -> str:
    """Dotted path of an error; pydantic names the JSON type it tried last, which is no field."""
    parts = loc[:-1] if len(loc) > 1 and loc[-1] in _JSON_TYPES else loc
    return ".".join(str(part) for part in parts if part not in ("list", "dict"))


def _listed(places: Sequence[int]) -> str:
    return ", ".join(f"episodes[{at}]" for at in places)
