"""What a comparison of policies was registered with, and which later commands keep to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pydantic import TypeAdapter

from openeta_exp.domain.counting import counted
from openeta_exp.domain.event import BatchStarted, ComparisonEnded
from openeta_exp.domain.gate import AnytimeGate, Gate, NoRegressionGate
from openeta_exp.domain.identity import Digest, JsonObject
from openeta_exp.domain.lineage import changes
from openeta_exp.domain.manifest import EpisodeSpec, Manifest
from openeta_exp.domain.policy_comparison import POLICIES
from openeta_exp.engine.policy_compare import POLICY_PHASE
from openeta_exp.errors import SettingsError
from openeta_exp.ports.store import Journal
from openeta_exp.settings.command import CompareSettings
from openeta_exp.settings.experiment import ExperimentSettings

_GATE: TypeAdapter[Gate] = TypeAdapter(Gate)
_SHOWN = 6
"""Lines about changed episodes that a refusal has at most."""


@dataclass(kw_only=True)
class _Registered:
    """What the journal holds of comparisons of policies.

    Attributes:
        rules: How they are judged, as fixed before the first pair; empty if none was begun.
        families: Names of policies that were judged together, the first one's in front.
        judged: Episodes that had begun when the first verdict was given; None without one.
        drawn_again: Episodes were run afresh after a verdict.
    """

    rules: JsonObject = field(default_factory=dict)
    families: set[tuple[str, ...]] = field(default_factory=set)
    episodes: dict[Digest, EpisodeSpec] = field(default_factory=dict)
    judged: frozenset[Digest] | None = None
    drawn_again: bool = False


def keep_to_registered(
    settings: ExperimentSettings, command: CompareSettings, manifest: Manifest, journal: Journal
) -> tuple[str, ...]:
    """Refuse what would make a comparison mean less than it was registered to mean.

    An interrupted one goes on, and further policies may join: Holm's procedure then asks more of
    everyone. Once a verdict was given, further episodes are another look at the data, which only
    a gate whose evidence is valid at any stop can afford.

    Returns:
        What takes a part of its meaning from the verdict although it is allowed.

    Raises:
        SettingsError: The experiment has begun to compare policies by other rules, on other
            episodes or with a policy that is left out, or it has a verdict on fewer episodes.
    """
    before = _registered(journal)
    if not before.rules:
        return ()
    changed = changes(before.rules, _rules(settings.gate, command))
    if changed:
        raise SettingsError(
            [
                f"experiment_id = {settings.experiment_id}: has begun to compare policies by "
                "other rules; use another experiment_id, or go back to them:",
                *(f"  {line}" for line in changed),
            ]
        )
    _refuse_other_episodes(settings.experiment_id, before, manifest)
    _refuse_smaller_family(settings, before)
    _refuse_another_look(settings, before, manifest)
    return tuple(_reservations(settings, command, before, manifest))


def _registered(journal: Journal) -> _Registered:
    found = _Registered()
    for _, event in journal.events():
        if isinstance(event, BatchStarted) and event.phase.startswith(POLICY_PHASE):
            found.rules = found.rules or _rules(
                _GATE.validate_python(event.config["gate"]),
                CompareSettings.model_validate(event.config["command"]),
            )
            policies = event.config["policies"]
            assert isinstance(policies, Mapping), "a comparison's configuration names its policies"
            found.families.add(tuple(policies))
            found.drawn_again |= found.judged is not None and event.config["fresh"] is True
            found.episodes |= {each.content_digest: each for each in event.manifest.episodes}
        elif isinstance(event, ComparisonEnded) and event.stage == POLICIES:
            found.judged = found.judged or frozenset(found.episodes)
    return found


def _rules(gate: Gate, command: CompareSettings) -> JsonObject:
    """Under the names that the command line has for them."""
    return {
        "gate": gate.model_dump(mode="json"),
        "stop_early": command.stop_early,
        "equivalence_margin": command.equivalence_margin,
    }


def _refuse_other_episodes(name: str, before: _Registered, manifest: Manifest) -> None:
    """A comparison of a part, or of something else, would take the place of the whole one's."""
    wanted = {spec.content_digest for spec in manifest.episodes}
    now = {spec.episode_id: spec for spec in manifest.episodes}
    left_out = [spec for each, spec in before.episodes.items() if each not in wanted]
    changed = [spec for spec in left_out if _is_new(now.get(spec.episode_id), before)]
    if changed:
        lines = dict.fromkeys(
            line for spec in changed for line in _what_changed(spec, now[spec.episode_id])
        )
        raise SettingsError(
            [
                f"experiment_id = {name}: has begun to compare policies on "
                f"{counted(len(changed), 'episode that has', plural='episodes that have')} "
                "changed since; use another experiment_id, or go back to them:",
                *(f"  {line}" for line in list(lines)[:_SHOWN]),
            ]
        )
    if left_out:
        raise SettingsError(
            f"experiment_id = {name}: has begun to compare policies on "
            f"{counted(len(left_out), 'episode that is', plural='episodes that are')} left out "
            f"now, the first is {left_out[0].episode_id}; use another experiment_id, or go back "
            "to them"
        )


def _is_new(spec: EpisodeSpec | None, before: _Registered) -> bool:
    return spec is not None and spec.content_digest not in before.episodes


def _what_changed(before: EpisodeSpec, now: EpisodeSpec) -> Iterator[str]:
    """Sentences about two episodes of one label."""
    if before.env_id != now.env_id:
        yield from _other_environment(before, now)
    labels = {"episode_id": True, "tags": True, "env_id": True}
    yield from changes(
        before.model_dump(mode="json", exclude=labels), now.model_dump(mode="json", exclude=labels)
    )


def _other_environment(before: EpisodeSpec, now: EpisodeSpec) -> Iterator[str]:
    # A catalog's environment is named after the content of its scene and of its task.
    was, became = (each.env_id.split("/") for each in (before, now))
    if len(was) != 3 or len(became) != 3 or was[0] != "catalog":
        yield f"env_id: {before.env_id} became {now.env_id}"
        return
    if was[1] != became[1]:
        yield (
            f"scene {now.tags.get('scene')}: its adapter's code, its parameters or its assets "
            "are others"
        )
    if was[2] != became[2]:
        yield (
            f"task {now.tags.get('task')}: its goal, its limit, or the rule or code of its "
            "success are others"
        )


def _refuse_smaller_family(settings: ExperimentSettings, before: _Registered) -> None:
    """Whoever leaves a policy out afterwards judges the others at a level they were not given."""
    if isinstance(settings.gate, NoRegressionGate):
        return
    baseline, *candidates = settings.policies
    for first, *others in sorted(before.families):
        missing = [each for each in others if each not in candidates]
        if first == baseline and missing and set(others) & set(candidates):
            raise SettingsError(
                f"experiment_id = {settings.experiment_id}: policies: {', '.join(missing)} shared "
                f"the gate's level with {', '.join(each for each in others if each in candidates)}"
                "; name all of them again, or use another experiment_id"
            )


def _refuse_another_look(
    settings: ExperimentSettings, before: _Registered, manifest: Manifest
) -> None:
    added = sum(spec.content_digest not in before.episodes for spec in manifest.episodes)
    allowed = isinstance(settings.gate, AnytimeGate | NoRegressionGate)
    if before.judged is not None and added and not allowed:
        raise SettingsError(
            f"experiment_id = {settings.experiment_id}: has a verdict on "
            f"{counted(len(before.episodes), 'episode')}, and {added} more would be another look, "
            f"for which the error rate of gate.mode = {settings.gate.mode} does not hold; use "
            "another experiment_id, with gate=anytime if it may have to grow, or go back to the "
            "episodes there were"
        )


def _reservations(
    settings: ExperimentSettings, command: CompareSettings, before: _Registered, manifest: Manifest
) -> Iterator[str]:
    if before.judged is None or isinstance(settings.gate, NoRegressionGate):
        return
    if settings.fresh or before.drawn_again:
        yield (
            "fresh=true drew episodes again after a verdict: what is said now is exploratory; "
            "another experiment_id gives a verdict of its own"
        )
    if any(spec.content_digest not in before.judged for spec in manifest.episodes):
        if not isinstance(settings.gate, AnytimeGate):
            yield "episodes were added after a verdict: what is said now is exploratory"
        elif command.equivalence_margin is not None:
            yield (
                "episodes were added after a verdict: gate=anytime allows for that, the test of "
                "equivalence_margin does not and is exploratory now"
            )
