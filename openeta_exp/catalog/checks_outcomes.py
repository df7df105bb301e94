"""Did the arms of a comparison face the same conditions, and did they look like working arms?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from openeta_exp.catalog.expansion import Expansion
from openeta_exp.catalog.findings import Finding, invalid, ok, suspect
from openeta_exp.catalog.outcomes import benchmark_evidence
from openeta_exp.domain.counting import counted
from openeta_exp.domain.episode import EpisodeOutcome, EpisodeResult
from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.stop import StopReason

_FEW = 4
_SHOWN = 10


def check_outcomes(
    expansion: Expansion,
    arms: Mapping[str, Sequence[EpisodeOutcome]],
    *,
    hidden: Sequence[str] = (),
) -> list[Finding]:
    """Look at outcomes of two or more arms over the same episodes.

    Args:
        hidden: Parameters that are known to act without showing in the first observation.
    """
    found = [*_same_starts(arms), *_perturbed(arms, expansion)]
    for name, outcomes in arms.items():
        found += _distinct_starts(name, outcomes, expansion, hidden=hidden)
        found += _symptoms(name, outcomes)
    return found


def _same_starts(arms: Mapping[str, Sequence[EpisodeOutcome]]) -> Iterator[Finding]:
    starts: dict[tuple[str, int], dict[str, str]] = defaultdict(dict)
    for name, outcomes in arms.items():
        for outcome in outcomes:
            if outcome.initial_state_digest is not None:
                key = (str(outcome.episode_id), outcome.repeat)
                starts[key][name] = outcome.initial_state_digest
    paired = {key: digests for key, digests in starts.items() if len(digests) > 1}
    differing = [key[0] for key, digests in paired.items() if len(set(digests.values())) > 1]
    evidence: JsonObject = {"pairs": len(paired), "differing": list(differing[:_SHOWN])}
    if differing:
        yield invalid(
            "arms_start_differently",
            f"{len(differing)} of {counted(len(paired), 'episode')} began with another first "
            f"observation in another arm, such as {differing[0]}",
            evidence,
        )
    elif paired:
        yield ok("arms_start_differently", "every pair began with the same observation", evidence)


def _distinct_starts(
    name: str,
    outcomes: Sequence[EpisodeOutcome],
    expansion: Expansion,
    *,
    hidden: Sequence[str],
) -> Iterator[Finding]:
    """Several scenarios of one task that begin with one and the same observation."""
    scenarios: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    rows = expansion.by_episode()
    for outcome in outcomes:
        row = rows.get(str(outcome.episode_id))
        if outcome.initial_state_digest is not None and row is not None:
            visible = {key: each for key, each in row.params.items() if key not in hidden}
            scenarios[row.env_id][outcome.initial_state_digest].add(str(sorted(visible.items())))
    for env_id, starts in scenarios.items():
        total = len(set().union(*starts.values()))
        largest = max(len(each) for each in starts.values())
        if total < 2 or largest < 2:
            continue
        make = invalid if largest == total else suspect
        yield make(
            "scenarios_start_alike",
            f"arm {name}: {largest} of {counted(total, 'scenario')} began with one and the same "
            "observation",
            {"env_id": env_id, "distinct_starts": len(starts), "scenarios": total},
        )


def _perturbed(
    arms: Mapping[str, Sequence[EpisodeOutcome]], expansion: Expansion
) -> Iterator[Finding]:
    unexposed, planned = list[str](), 0
    neutral = {str(row.episode_id) for row in expansion.rows if row.is_neutral}
    for outcomes in arms.values():
        for outcome in outcomes:
            evidence = benchmark_evidence(outcome)
            if str(outcome.episode_id) in neutral:
                continue
            if evidence is not None and evidence.receipts:
                planned += 1
                if not evidence.perturbed_as_planned:
                    unexposed.append(str(outcome.episode_id))
    if not unexposed:
        return
    make = invalid if len(unexposed) == planned else suspect
    yield make(
        "perturbation_without_effect",
        f"{len(unexposed)} of {counted(planned, 'perturbed episode')} ended before the "
        "perturbation, or it changed nothing",
        {"episodes": list(unexposed[:_SHOWN])},
    )


def _symptoms(name: str, outcomes: Sequence[EpisodeOutcome]) -> Iterator[Finding]:
    results = [each for each in outcomes if isinstance(each, EpisodeResult)]
    if len(results) < _FEW:
        return
    if all(each.success and each.usage.turns <= 1 for each in results):
        yield suspect(
            "success_without_acting",
            f"arm {name}: every episode succeeded with its first action",
            {"episodes": len(results)},
        )
    if not any(each.success for each in results) and all(
        each.stop_reason is StopReason.MAX_TURNS for each in results
    ):
        yield suspect(
            "wiring_suspected",
            f"arm {name}: every one of {counted(len(results), 'episode')} ran into the step limit "
            "without a success; check cameras, units and action conventions before the checkpoint",
            {"episodes": len(results)},
        )
    constant = [
        each
        for each in results
        if (evidence := benchmark_evidence(each)) is not None and evidence.actions_constant
    ]
    if len(constant) == len(results):
        yield suspect(
            "actions_constant",
            f"arm {name}: the action never changed within an episode",
            {"episodes": len(results)},
        )
