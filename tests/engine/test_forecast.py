"""Forecasts of what model calls will cost."""

from __future__ import annotations

from openeta_exp.domain.model import ModelRole
from openeta_exp.domain.money import Prices, Spent, Tokens
from openeta_exp.engine.forecast import Earlier, Forecast, RoleLimits, Work, forecast

PLANNER, AUTHOR = ModelRole.PLANNER, ModelRole.STRATEGY_AUTHOR
LIMITS = (
    RoleLimits(role=PLANNER, written=100, per_turn=3),
    RoleLimits(role=AUTHOR, written=4096, per_generation=2),
)
WORK = (
    Work(episodes=10, tokens=50_000, turns=20, tool_calls=40),
    Work(episodes=2, tokens=100_000, turns=10, tool_calls=40),
)
KNOWN = Prices(input_usd=2.0, output_usd=10.0)
UNKNOWN = Prices(input_usd=None, output_usd=3.0)


def spent(role: ModelRole, tokens: Tokens, *, settled: bool = True, generation: int = 0) -> Spent:
    return Spent(generation=generation, role=role, settled=settled, calls=9, tokens=tokens)


def of(earlier: Earlier, *, prices: Prices = KNOWN, generations: int = 3) -> Forecast:
    return forecast(
        "the manifest",
        WORK,
        generations=generations,
        limits=LIMITS,
        earlier=earlier,
        prices=prices,
    )


def test_without_an_earlier_episode_the_budgets_are_the_bound() -> None:
    found = of(Earlier())
    planner, author = found.roles

    assert not found.is_measured
    assert found.episodes == 12
    assert found.tokens.total == 10 * 50_000 + 2 * 100_000
    assert (planner.calls_at_most, planner.written_at_most) == (3 * 220, 66_000)
    assert (author.calls_at_most, author.written_at_most) == (6, 6 * 4096)
    # The longest answers there can be, and input for the rest.
    written = 66_000 + 6 * 4096
    assert found.usd == (2.0 * (700_000 - written) + 10.0 * written) / 1e6
    assert "at most 700,000 tokens ($" in found.sentences()[0]
    assert "not measured yet; at most 660 calls" in found.sentences()[1]


def test_what_was_measured_is_extrapolated_role_by_role() -> None:
    earlier = Earlier(
        episodes=4,
        generations=2,
        spent=[
            spent(PLANNER, Tokens(30_000, 1_000)),
            spent(PLANNER, Tokens(10_000, 1_000), generation=1),
            spent(PLANNER, Tokens(99_999, 99_999), settled=False),
            spent(AUTHOR, Tokens(4_000, 200)),
        ],
    )

    found = of(earlier)
    planner, author = found.roles

    assert (planner.tokens, planner.measured) == (Tokens(120_000, 6_000), 4)
    assert (author.tokens, author.measured) == (Tokens(6_000, 300), 2)
    assert found.tokens == Tokens(126_000, 6_300)
    assert found.usd == (2.0 * 126_000 + 10.0 * 6_300) / 1e6
    assert found.sentences() == (
        "the manifest, 12 episodes: about 132,300 tokens ($0.32), by what this experiment has "
        "measured",
        "  planner: about 126,000 tokens ($0.30), measured over 4 episodes",
        "  strategy_author: about 6,300 tokens ($0.01), measured over 2 generations",
    )


def test_a_role_that_was_not_asked_yet_is_bounded_beside_those_that_were() -> None:
    found = of(Earlier(episodes=4, spent=[spent(PLANNER, Tokens(40_000, 2_000))]))

    assert found.tokens == Tokens(120_000, 6_000)
    assert [each.tokens is None for each in found.roles] == [False, True]


def test_a_role_that_has_nothing_to_do_is_left_out() -> None:
    found = of(Earlier(), generations=0)

    assert [each.role for each in found.roles] == [PLANNER]


def test_an_unknown_price_names_the_setting_that_gives_it() -> None:
    found = of(Earlier(), prices=UNKNOWN)

    assert found.usd is None
    assert found.to_json()["usd"] is None
    assert found.sentences()[0].endswith("price unknown, set money.input_usd_per_million")
    assert "$" not in "".join(found.sentences())
