"""A token is counted once, however often its session went on."""

from __future__ import annotations

from openeta_exp.domain.episode import EpisodeOutcome
from openeta_exp.domain.token_tally import AttemptTokens, TokenTally
from tests.batches import broke, ended, spec, won
from tests.pauses import paused, went_on

ASKED = paused().outcome
"""It had used 1,000 tokens when it asked."""


def total(*outcomes: EpisodeOutcome) -> int:
    tally = TokenTally()
    for outcome in outcomes:
        tally.take(ended(outcome))
    return tally.total


def test_an_answered_episode_counts_what_it_had_used_when_it_asked_once() -> None:
    solved = went_on(won(spec(0), attempt=1), tokens=1_700)

    assert total(ASKED, solved) == 1_700


def test_an_episode_that_asks_again_and_again_is_counted_once() -> None:
    again = went_on(paused(attempt=1).outcome, tokens=1_500)
    solved = went_on(won(spec(0), attempt=2), tokens=2_200)

    assert total(ASKED, again, solved) == 2_200


def test_what_a_broken_attempt_took_is_counted_besides() -> None:
    # The next attempt begins again with what the session had used when it asked.
    failed = went_on(broke(spec(0), attempt=1), tokens=1_300)
    solved = went_on(won(spec(0), attempt=2), tokens=1_700)

    assert total(ASKED, failed, solved) == 2_000


def test_sessions_have_nothing_in_common() -> None:
    other = won(spec(0), attempt=1)

    assert total(ASKED, other) == 1_000 + other.usage.tokens.total_tokens


def test_an_attempt_has_what_it_took_itself() -> None:
    tokens = AttemptTokens()

    solved = went_on(won(spec(0), attempt=1), tokens=1_700)

    assert [tokens.of(each) for each in (ASKED, solved)] == [1_000, 700]
