"""Policies against the first one: both directions, Holm over policies and tasks, repeats merged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openeta_exp.adapters.store.memory_journal import MemoryJournal
from openeta_exp.adapters.tracking.null_tracker import NullTracker
from openeta_exp.domain.budget import Budget
from openeta_exp.domain.episode import EpisodeOutcome
from openeta_exp.domain.event import ComparisonEnded, EpisodeEnded
from openeta_exp.domain.gate import (
    AnytimeGate,
    FixedGate,
    Gate,
    NoRegressionGate,
    SequentialGate,
    Terms,
)
from openeta_exp.domain.identity import EpisodeId
from openeta_exp.domain.manifest import EpisodeSpec, Manifest
from openeta_exp.domain.money import Prices
from openeta_exp.domain.policy_comparison import Standing
from openeta_exp.domain.verdict import Decision, GateVerdict
from openeta_exp.engine.batch import Observers
from openeta_exp.engine.policy_compare import (
    ComparedContestant,
    Contestant,
    PolicyComparePlan,
    compare_policies,
)
from openeta_exp.engine.policy_compare_gate import (
    TwoSidedRule,
    exchanged,
    sized,
    step_down,
)
from openeta_exp.engine.policy_compare_repeats import by_scenario
from openeta_exp.engine.policy_compare_verdict import judge_all
from openeta_exp.engine.progress import NoProgress
from openeta_exp.errors import ManifestError
from openeta_exp.statistics.gate import judge
from openeta_exp.statistics.multiplicity import holm
from tests import batches
from tests.manual_clock import ManualClock
from tests.statistics.paired_arms import ENDINGS, story

pytestmark = pytest.mark.anyio

Solves = Callable[[EpisodeSpec], bool | None]
"""None where the episode breaks."""


def manifest(scenarios: int, *, tasks: int = 2, repeats: int = 1) -> Manifest:
    return Manifest(
        episodes=tuple(
            EpisodeSpec(
                episode_id=EpisodeId(f"e{index}.r{repeat}"),
                env_id=f"catalog/{index % tasks}",
                task=f"task {index % tasks}",
                scenario={"x": index},
                repeat=repeat,
            )
            for index in range(scenarios)
            for repeat in range(repeats)
        )
    )


def contestant(name: str, solves: Solves) -> Contestant:
    arm = batches.arm(name, tree=name[0])

    async def run(spec: EpisodeSpec) -> EpisodeOutcome:
        match solves(spec):
            case None:
                return batches.broke(spec, under=arm)
            case True:
                return batches.won(spec, under=arm)
            case _:
                return batches.lost(spec, under=arm)

    return Contestant(arm=arm, run=run, config={"policy": {"name": name}})


def x_of(spec: EpisodeSpec) -> int:
    x = spec.scenario["x"]
    assert isinstance(x, int)
    return x


def plan(
    policies: Mapping[str, Solves],
    *,
    scenarios: int = 40,
    repeats: int = 1,
    complete: bool = True,
    gate: Gate | None = None,
    max_missing_share: float = 0.0,
) -> PolicyComparePlan:
    episodes = manifest(scenarios, repeats=repeats)
    return PolicyComparePlan(
        experiment_id="exp",
        manifest=episodes,
        contestants=[contestant(name, solves) for name, solves in policies.items()],
        gate=sized(gate or SequentialGate(), units=scenarios, tasks=2, complete=complete),
        complete=complete,
        repeats=repeats,
        margin=0.1,
        attempts=2,
        max_missing_share=max_missing_share,
        concurrency=3,
        provenance=batches.started(episodes).provenance,
        prices=Prices(input_usd=None, output_usd=None),
        fresh=False,
    )


async def compared(
    of: PolicyComparePlan,
    journal: MemoryJournal | None = None,
    *,
    may_run: Callable[[Contestant], bool] = lambda _: True,
) -> tuple[dict[str, ComparedContestant], MemoryJournal]:
    kept = journal or MemoryJournal()
    observers = Observers(
        journal=kept, tracker=NullTracker(), progress=NoProgress(), clock=ManualClock()
    )
    return await compare_policies(of, observers=observers, may_run=may_run), kept


def runs(journal: MemoryJournal) -> int:
    return sum(isinstance(event, EpisodeEnded) for _, event in journal.events())


async def test_three_policies_are_judged_against_the_first_and_share_its_episodes() -> None:
    of = plan(
        {
            "first": lambda spec: x_of(spec) % 2 == 0,
            "good": lambda spec: True,
            "worse": lambda spec: False,
            "same": lambda spec: x_of(spec) % 2 == 0,
        }
    )

    found, journal = await compared(of)

    assert {name: each.judged.standing for name, each in found.items()} == {
        "good": Standing.BETTER,
        "worse": Standing.REGRESSED,
        "same": Standing.EQUIVALENT,
    }
    assert runs(journal) == 4 * 40
    ended = [event for _, event in journal.events() if isinstance(event, ComparisonEnded)]
    assert [event.comparison_id for event in ended] == [
        each.comparison_id for each in found.values()
    ]
    assert [event.verdict.decision for event in ended if event.verdict is not None] == [
        Decision.PROMOTE,
        Decision.REJECT,
        Decision.INCONCLUSIVE,
    ]
    again, _ = await compared(of, journal)
    assert runs(journal) == 4 * 40
    assert [each.judged for each in again.values()] == [each.judged for each in found.values()]


async def test_a_policy_that_gets_worse_on_one_task_has_regressed() -> None:
    of = plan(
        {
            "first": lambda spec: x_of(spec) % 2 == 0,
            "mixed": lambda spec: x_of(spec) % 2 == 1 or x_of(spec) > 74,
        },
        scenarios=100,
    )

    found, _ = await compared(of)

    judged = found["mixed"].judged
    assert judged.standing is Standing.REGRESSED
    assert {name.split(": ")[1]: each.standing for name, each in judged.by_task.items()} == {
        "task 0": Standing.REGRESSED,
        "task 1": Standing.BETTER,
    }
    assert "worse beyond chance on task 0" in judged.reasons


async def test_episodes_without_a_verdict_are_missing_and_tried_again_by_the_same_command() -> None:
    fragile = {"is": True}

    def solves(spec: EpisodeSpec) -> bool | None:
        return None if fragile["is"] and x_of(spec) % 5 == 0 else True

    of = plan({"first": lambda spec: False, "brittle": solves})

    partial, journal = await compared(of)
    fragile["is"] = False
    whole, _ = await compared(of, journal)

    assert partial["brittle"].missing == 8
    assert whole["brittle"].missing == 0
    assert runs(journal) == 40 + 32 + 2 * 8 + 8


async def test_a_policy_that_is_given_up_leaves_the_rest_missing() -> None:
    of = plan({"first": lambda spec: True, "gone": lambda spec: None})
    seen: list[str] = []

    def may_run(contestant: Contestant) -> bool:
        seen.append(contestant.name)
        return seen.count("gone") < 10

    found, journal = await compared(of, may_run=may_run)

    assert found["gone"].missing == 40
    assert found["gone"].judged.standing is Standing.INCONCLUSIVE
    assert runs(journal) < 3 * 40


async def test_environments_are_kept_as_long_as_they_are_of_use() -> None:
    visited: list[str] = []

    def solves(spec: EpisodeSpec) -> bool:
        visited.append(spec.env_id)
        return True

    of = replace(plan({"first": solves, "second": solves}, scenarios=20), concurrency=1)
    await compared(of)
    complete = visited.copy()
    visited.clear()
    of = plan({"first": solves, "second": solves}, scenarios=20, complete=False)
    await compared(replace(of, concurrency=1))

    assert len(complete) == 40
    assert _changes(complete) == 1
    assert _changes(visited) > 5, "a gate that may stop asks for every task in turn"


def _changes(visited: list[str]) -> int:
    return sum(before != after for before, after in pairwise(visited))


async def test_a_gate_may_end_a_comparison_that_need_not_be_complete() -> None:
    of = plan({"first": lambda spec: False, "good": lambda spec: True}, complete=False)

    found, journal = await compared(of)

    assert found["good"].judged.standing is Standing.BETTER
    assert found["good"].missing == 0
    assert runs(journal) < 2 * 30


async def test_two_episodes_that_would_be_one_pair_are_refused_before_one_is_left_out() -> None:
    of = plan({"a": lambda _: True, "b": lambda _: False})
    first, *others = of.manifest.episodes
    short = first.model_copy(
        update={"episode_id": EpisodeId("short"), "budget": Budget(max_turns=3)}
    )
    journal = MemoryJournal()

    with pytest.raises(ManifestError, match="two episodes are the same pair"):
        await compared(replace(of, manifest=Manifest(episodes=(first, short, *others))), journal)

    assert list(journal.events()) == []


async def test_repeats_are_run_side_by_side_and_judged_as_one() -> None:
    of = plan(
        {"first": lambda spec: False, "good": lambda spec: spec.repeat > 0},
        scenarios=24,
        repeats=3,
    )

    found, _ = await compared(of)

    judged = found["good"].judged
    assert judged.counts.pairs == 72
    assert judged.judgement.better.effect.pairs <= 24
    assert judged.standing is Standing.BETTER
    keys = [pair.key for pair in judged.comparison.observations]
    assert [key.unit for key in keys[:3]] == [keys[0].unit] * 3


async def test_a_handful_of_pairs_proves_nothing_whatever_they_say() -> None:
    of = plan({"first": lambda spec: False, "good": lambda spec: True}, scenarios=6)

    found, _ = await compared(of)

    assert found["good"].judged.standing is Standing.INCONCLUSIVE


ENDED = st.text(alphabet="".join(ENDINGS), min_size=1, max_size=60)


@given(ENDED)
@settings(max_examples=30)
def test_exchanging_the_arms_twice_changes_nothing(text: str) -> None:
    comparison = story(text)

    turned = exchanged(comparison)

    assert exchanged(turned) == comparison
    assert turned.improved == comparison.regressed
    assert by_scenario(comparison, repeats=1) is comparison


@given(ENDED)
@settings(max_examples=20)
def test_no_policy_is_both_better_and_worse(text: str) -> None:
    comparison = story(text)
    gate = sized(SequentialGate(), units=len(text), tasks=1, complete=True)
    rule = TwoSidedRule(gate=gate, terms=Terms(), complete=True, repeats=1)

    forward = judge_all({"b": comparison}, rule=rule, margin=None)["b"]
    backward = judge_all({"b": exchanged(comparison)}, rule=rule, margin=None)["b"]

    mirrored = {Standing.BETTER: Standing.REGRESSED, Standing.REGRESSED: Standing.BETTER}
    assert backward.standing is mirrored.get(forward.standing, forward.standing)


@given(st.lists(st.integers(0, 12), min_size=1, max_size=5))
@settings(max_examples=15)
def test_stepping_down_is_holms_procedure(losses: list[int]) -> None:
    """Tests with a p-value of their own are rejected exactly where Holm rejects them."""
    gate = FixedGate(pairs=20, n_min=1, min_tasks=1)
    comparisons = {str(at): story("w" * (20 - n) + "l" * n) for at, n in enumerate(losses)}

    def judged(name: str, level: float) -> GateVerdict:
        return judge(comparisons[name], gate=gate, terms=Terms(alpha_cap=level))

    found = step_down({name: _at(judged, name) for name in comparisons}, alpha=0.05)

    p_values = [judged(name, 0.05).p_value or 0.0 for name in comparisons]
    assert [found[name].decision is Decision.PROMOTE for name in comparisons] == [
        adjusted <= 0.05 for adjusted in holm(p_values)
    ]


def _at(judged: Callable[[str, float], GateVerdict], name: str) -> Callable[[float], GateVerdict]:
    return lambda level: judged(name, level)


def test_a_gate_is_sized_to_the_catalog() -> None:
    small = sized(SequentialGate(), units=36, tasks=1, complete=True)
    large = sized(SequentialGate(), units=3000, tasks=5, complete=True)
    short = sized(SequentialGate(n_max="auto"), units=30, tasks=1, complete=False)

    assert isinstance(small, SequentialGate)
    assert (small.n_max, small.min_tasks, small.gamma) == (36, 1, 0.0)
    assert isinstance(large, SequentialGate)
    assert (large.n_max, large.batch) == (3000, 60)
    assert isinstance(short, SequentialGate)
    assert short.n_max == 30
    assert short.gamma == SequentialGate().gamma
    for gate in (FixedGate(), AnytimeGate(), NoRegressionGate()):
        assert sized(gate, units=100, tasks=1, complete=True).guardrails.cost is None
