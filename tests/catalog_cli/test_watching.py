"""Comparisons are watched: first pairs that mean nothing, and policies that only break."""

from __future__ import annotations

from pathlib import Path

from openeta_exp.adapters.store.memory_journal import MemoryJournal
from openeta_exp.assembly.catalog_result import FIRST_EPISODES, Breakages, Evidence, FirstEpisodes
from openeta_exp.catalog.expansion import Expansion, expand
from openeta_exp.catalog.reading import read_catalog
from openeta_exp.domain.episode import EpisodeOutcome
from openeta_exp.engine.policy_compare import Contestant
from tests import batches
from tests.catalog_cli.comparing import toy_catalog


def contestant(name: str) -> Contestant:
    async def never(_: object) -> EpisodeOutcome:
        raise AssertionError("nothing is run here")

    return Contestant(arm=batches.arm(name, tree=name[0]), run=never, config={})


FIRST, SECOND = contestant("a"), contestant("b")


def expansion(folder: Path) -> Expansion:
    return expand(read_catalog(toy_catalog(folder)))


def ending(of: Expansion, index: int, who: Contestant, *, start: str) -> EpisodeOutcome:
    outcome = batches.won(of.manifest.episodes[index], under=who.arm)
    return outcome.model_copy(update={"initial_state_digest": start, "environment": {}})


def watch(of: Expansion, *, allowed: bool = False) -> tuple[Evidence, FirstEpisodes]:
    evidence = Evidence(of, [FIRST, SECOND], MemoryJournal(), fresh=False)
    first = FirstEpisodes(
        of,
        evidence,
        baseline="a",
        candidates=["b"],
        hosted=["a", "b"],
        hidden=(),
        allowed=allowed,
    )
    return evidence, first


def play(
    of: Expansion, pairs: int, evidence: Evidence, first: FirstEpisodes, *, alike: bool
) -> None:
    for index in range(pairs):
        for who in (FIRST, SECOND):
            start = f"{index}" if alike else f"{index}{who.name}"
            event = batches.ended(ending(of, index, who, start=start))
            evidence.take(event)
            first.take(event)


def test_arms_that_start_differently_are_stopped_after_the_first_pairs(tmp_path: Path) -> None:
    of = expansion(tmp_path)
    evidence, first = watch(of)

    play(of, FIRST_EPISODES - 1, evidence, first, alike=False)
    assert first.may_go_on()
    play(of, FIRST_EPISODES, evidence, first, alike=False)

    assert not first.may_go_on()
    assert [each.check for each in first.found] == ["arms_start_differently"]


def test_arms_that_start_alike_go_on_and_an_override_does_too(tmp_path: Path) -> None:
    of = expansion(tmp_path)
    evidence, first = watch(of)
    play(of, FIRST_EPISODES, evidence, first, alike=True)
    assert first.may_go_on()
    assert not first.found

    evidence, first = watch(of, allowed=True)
    play(of, FIRST_EPISODES, evidence, first, alike=False)
    assert first.may_go_on()
    assert first.found


def test_a_verdict_outlasts_a_later_breakage(tmp_path: Path) -> None:
    of = expansion(tmp_path)
    evidence, _ = watch(of)
    spec = of.manifest.episodes[0]
    won = batches.won(spec, under=FIRST.arm)

    evidence.take(batches.ended(won))
    evidence.take(batches.ended(batches.broke(spec, under=FIRST.arm)))

    assert evidence.of("a") == [won]
    assert evidence.of("b") == []


def test_a_policy_that_only_breaks_is_given_up_and_one_that_recovers_is_not(
    tmp_path: Path,
) -> None:
    spec = expansion(tmp_path).manifest.episodes[0]
    said: list[str] = []
    breakages = Breakages(limit=3, note=said.append)

    for _ in range(2):
        breakages.take(batches.ended(batches.broke(spec, under=FIRST.arm)))
    breakages.take(batches.ended(batches.won(spec, under=FIRST.arm)))
    for _ in range(3):
        breakages.take(batches.ended(batches.broke(spec, under=SECOND.arm)))

    assert breakages.may_run(FIRST)
    assert not breakages.may_run(SECOND)
    assert not breakages.may_run(SECOND)
    assert len(said) == 1
    assert "b broke 3 times in a row" in said[0]
