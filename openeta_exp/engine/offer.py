"""What the agent of one episode may call and read, which grows while the episode runs."""

from __future__ import annotations

from collections.abc import Iterable

from openeta_exp.domain.skill import Skill
from openeta_exp.domain.tool import ToolEffect, ToolSpec

READ_SKILL = ToolSpec(
    name="read_skill",
    description="Read a skill whole.",
    effect=ToolEffect.BOOKKEEPING,
    parameters={
        "type": "object",
        "properties": {"name": {"type": "string"}},
        "required": ["name"],
    },
)


class Offer:
    """Tools and skills by name, shared by the tool boxes of an episode.

    Boxes know the offer and not each other: two that did would keep every frame the episode saw
    alive until Python's cycle collector runs, which in a long batch is dozens of episodes later.
    """

    def __init__(self, *, tools: Iterable[ToolSpec], skills: tuple[Skill, ...]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._skills: dict[str, Skill] = {}
        for skill in skills:
            self.learn(skill)

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        return tuple(self._tools.values())

    def tool(self, name: str) -> ToolSpec:
        """Raises: KeyError: If no such tool is offered; a planner's calls are checked before."""
        return self._tools[name]

    def add(self, tool: ToolSpec) -> None:
        self._tools[tool.name] = tool

    @property
    def skills(self) -> tuple[Skill, ...]:
        return tuple(self._skills.values())

    def skill(self, name: str) -> Skill | None:
        return self._skills.get(name)

    def learn(self, skill: Skill) -> None:
        """Make a new or changed skill readable."""
        self._skills[skill.name] = skill
        self.add(READ_SKILL)
