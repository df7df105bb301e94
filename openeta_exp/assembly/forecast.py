"""Settings and journal -> what a command will cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from openeta_exp.adapters.authoring import model_reviewer, strategy_writing
from openeta_exp.adapters.store.layout import ExperimentLayout
from openeta_exp.adapters.store.sqlite_journal import SqliteJournal
from openeta_exp.adapters.supervision import (
    model_action_reviewer,
    model_guidance,
    model_skill_author,
)
from openeta_exp.assembly.money import prices
from openeta_exp.assembly.splits import Splits
from openeta_exp.domain.counting import counted
from openeta_exp.domain.event import EpisodeEnded, GenerationStarted
from openeta_exp.domain.identity import SessionId
from openeta_exp.domain.manifest import EpisodeSpec, Manifest
from openeta_exp.domain.model import ModelRole
from openeta_exp.engine.draws import HeldOutPool
from openeta_exp.engine.forecast import Earlier, Forecast, RoleLimits, Work, forecast
from openeta_exp.engine.lineage_plan import LANES
from openeta_exp.settings.experiment import ExperimentSettings
from openeta_exp.settings.lineage import FileAuthorSettings, GepaAuthorSettings


def forecast_run(
    settings: ExperimentSettings, to_run: Sequence[EpisodeSpec], earlier: Earlier
) -> Forecast:
    """Of these episodes, once each."""
    return forecast(
        "the manifest",
        [Work.of(Manifest(episodes=(spec,)), episodes=1) for spec in to_run],
        generations=0,
        limits=tuple(_limits(settings)),
        earlier=earlier,
        prices=prices(settings),
    )


def forecast_lineage(settings: ExperimentSettings, splits: Splits, earlier: Earlier) -> Forecast:
    """Of all generations, if every candidate comes as far as it can and no comparison stops."""
    lineage = settings.lineage
    comparisons = lineage.generations * len(LANES)
    pool = HeldOutPool.shared(
        splits.held_out,
        gate=settings.gate,
        comparisons=comparisons,
        confirms=lineage.confirmation_pairs > 0,
    )
    held_out = comparisons * pool.runs + lineage.confirmation_pairs
    train = len(splits.train.episodes) + _author_episodes(settings)
    canary = 2 * comparisons * len(splits.canary.episodes)
    return forecast(
        f"{counted(lineage.generations, 'generation')} with every comparison at its longest",
        [
            Work.of(
                splits.train,
                episodes=lineage.generations * train + 2 * lineage.flakiness_pairs,
            ),
            Work.of(splits.canary, episodes=canary),
            Work.of(splits.held_out, episodes=2 * held_out),
        ],
        generations=lineage.generations,
        limits=tuple(_limits(settings)),
        earlier=earlier,
        prices=prices(settings),
    )


def earlier_of(settings: ExperimentSettings) -> Earlier:
    """What the experiment's journal has measured; nothing if it has none.

    Raises:
        StoreError: The journal cannot be read.
    """
    layout = ExperimentLayout.below(settings.output_root.absolute(), settings.experiment_id)
    if not layout.journal.is_file():
        return Earlier()
    journal = SqliteJournal(layout.journal, read_only=True)
    try:
        return measured_in(journal)
    finally:
        journal.close()


def measured_in(journal: SqliteJournal) -> Earlier:
    # An episode that waited for a person and then went on is one, over all its attempts.
    sessions, generations = set[SessionId](), set[int]()
    for _, event in journal.events():
        match event:
            case EpisodeEnded(outcome=outcome):
                sessions.add(outcome.session_id)
            case GenerationStarted(generation=generation):
                generations.add(generation)
            case _:
                pass
    return Earlier(
        episodes=len(sessions), generations=len(generations), spent=journal.spending.spent()
    )


def _author_episodes(settings: ExperimentSettings) -> int:
    """What the author may run in a generation before it proposes."""
    author = settings.author
    return author.max_episodes if isinstance(author, GepaAuthorSettings) else 0


def _limits(settings: ExperimentSettings) -> Iterator[RoleLimits]:
    """Of every role that these settings let be asked."""
    attempts, planner = settings.provider.max_attempts, settings.planner
    yield RoleLimits(
        role=ModelRole.PLANNER,
        written=planner.max_output_tokens,
        per_turn=attempts * (1 + planner.validation_retries),
    )
    reviewed = settings.approvement.profile == "reviewed_autonomy"
    if reviewed:
        yield RoleLimits(
            role=ModelRole.ACTION_REVIEWER,
            written=model_action_reviewer.MAX_OUTPUT_TOKENS,
            per_tool_call=attempts,
        )
        yield RoleLimits(
            role=ModelRole.GUIDANCE,
            written=model_guidance.MAX_OUTPUT_TOKENS,
            per_turn=attempts,
        )
    if settings.agent.skill_changes:
        yield RoleLimits(
            role=ModelRole.SKILL_AUTHOR,
            written=model_skill_author.MAX_AUTHOR_TOKENS,
            per_tool_call=attempts,
        )
    yield RoleLimits(
        role=ModelRole.SKILL_REVIEWER,
        written=model_skill_author.MAX_REVIEWER_TOKENS,
        per_tool_call=attempts if reviewed and settings.agent.skill_changes else 0,
        per_generation=attempts,
    )
    if not isinstance(settings.author, FileAuthorSettings):
        yield RoleLimits(
            role=ModelRole.STRATEGY_AUTHOR,
            written=strategy_writing.MAX_OUTPUT_TOKENS,
            # A revision is tried on an episode at least.
            per_generation=attempts * max(1, _author_episodes(settings)),
        )
    yield RoleLimits(
        role=ModelRole.STRATEGY_REVIEWER,
        written=model_reviewer.MAX_OUTPUT_TOKENS,
        per_generation=attempts,
    )
