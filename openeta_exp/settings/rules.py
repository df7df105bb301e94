"""Rules across the sections of the settings: what fits together and what does not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from openeta_exp.domain.counting import counted
from openeta_exp.settings.catalog import FileCatalogSettings, PlannerPolicySettings
from openeta_exp.settings.command import (
    CheckSettings,
    CompareSettings,
    IterateSettings,
    PowerSettings,
    PreflightSettings,
)
from openeta_exp.settings.lineage import GepaAuthorSettings, LineageSettings, MoneySettings
from openeta_exp.settings.world import (
    EmbeddedPerceptionSettings,
    EmbeddedSimulatorSettings,
    McpPerceptionSettings,
    McpSimulatorSettings,
    NoPerceptionSettings,
)


def misfits(sections: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Rules across sections: (field, what is wrong and how to fix it), for those that are there."""
    simulator, perception = sections.get("simulator"), sections.get("perception")
    if isinstance(perception, EmbeddedPerceptionSettings):
        if isinstance(simulator, McpSimulatorSettings):
            yield (
                "perception.kind",
                "knows only what the embedded simulator shows; use perception=mcp or "
                "perception=none with simulator=mcp",
            )
        elif isinstance(simulator, EmbeddedSimulatorSettings) and not simulator.cameras:
            yield "simulator.cameras", "perception needs a camera; add agentview"
    if isinstance(perception, McpPerceptionSettings) and not (
        perception.sam3_url or perception.anygrasp_url
    ):
        yield "perception.sam3_url", "no service is named; set it or perception.anygrasp_url"
    command = sections.get("command")
    yield from _generation_misfits(sections)
    if sections.get("on_need_human") == "pause" and isinstance(
        command, IterateSettings | CompareSettings
    ):
        yield (
            "on_need_human",
            f"command={command.kind} judges how episodes ended, and one that waits may end "
            "otherwise after the verdict; use fail",
        )
    if sections.get("fresh") is True and isinstance(command, IterateSettings):
        yield (
            "fresh",
            "command=iterate goes on from its journal and runs nothing twice; use another "
            "experiment_id to start over",
        )
    yield from _money_misfits(sections)
    yield from _catalog_misfits(sections)
    yield from _author_misfits(sections.get("author"))
    if isinstance(command, PowerSettings) and command.success_rate + command.effect > 1:
        yield (
            "command.effect",
            f"no agent is that much better than one that solves {command.success_rate:g} of its "
            f"episodes; use at most {1 - command.success_rate:g}",
        )
    if isinstance(command, PreflightSettings) and command.require_perception:
        missing = _missing_perception(perception)
        if missing:
            yield "command.require_perception", f"perception is required; set {missing}"


def _generation_misfits(sections: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    generation, command = sections.get("generation"), sections.get("command")
    lineage = sections.get("lineage")
    if not isinstance(generation, int):
        return
    if command is not None and not isinstance(command, IterateSettings):
        yield "generation", "is for command=iterate; use that, or leave it out"
    elif isinstance(lineage, LineageSettings) and generation >= lineage.generations:
        yield (
            "generation",
            f"the lineage has {counted(lineage.generations, 'generation')}, counted from 0; set "
            "lineage.generations to how many there will be, for this one and those before it",
        )


def _money_misfits(sections: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    money = sections.get("money")
    if not isinstance(money, MoneySettings):
        return
    capped = [name for name in ("experiment_usd", "generation_usd") if getattr(money, name)]
    unknown = [
        name
        for name in ("input_usd_per_million", "output_usd_per_million")
        if getattr(money, name) is None
    ]
    for cap in capped if unknown else ():
        missing = " and ".join(f"money.{name}" for name in unknown)
        yield f"money.{cap}", f"cannot be kept while the price is not known; set {missing}"


def _author_misfits(author: object) -> Iterator[tuple[str, str]]:
    if not isinstance(author, GepaAuthorSettings):
        return
    if author.max_episodes < author.episodes_per_candidate:
        yield (
            "author.max_episodes",
            "is too few to measure a single revision; use at least "
            f"author.episodes_per_candidate = {author.episodes_per_candidate}, or lower that",
        )
    if author.minibatch > author.episodes_per_candidate:
        yield (
            "author.minibatch",
            "is a part of the episodes a revision is measured on; use at most "
            f"author.episodes_per_candidate = {author.episodes_per_candidate}",
        )


def _catalog_misfits(sections: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    command, catalog = sections.get("command"), sections.get("catalog")
    if not isinstance(command, CheckSettings | CompareSettings):
        return
    if "catalog" in sections and catalog is None:
        yield (
            "catalog.path",
            "is not set; name a directory with scenes.yaml, tasks.yaml and scenarios.yaml, or "
            "use catalog=embedded for the episodes of `manifest`",
        )
    policies = sections.get("policies")
    if not isinstance(policies, Mapping):
        return
    if isinstance(command, CompareSettings) and len(policies) < 2:
        yield "policies", "two are needed; add policy@a=my_module:Policy policy@b=..."
    if isinstance(catalog, FileCatalogSettings):
        for name, policy in policies.items():
            if isinstance(policy, PlannerPolicySettings):
                yield (
                    f"policies.{name}.kind",
                    "the planner knows the embedded simulators only; use catalog=embedded",
                )


def _missing_perception(perception: object) -> str:
    match perception:
        case NoPerceptionSettings():
            return "perception=mcp or perception=embedded"
        case McpPerceptionSettings(sam3_url=None):
            return "perception.sam3_url"
        case McpPerceptionSettings(anygrasp_url=None):
            return "perception.anygrasp_url"
        case _:
            return ""
