"""The tabletop's tasks: what to say, which object, and where it must end up."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Goal(StrEnum):
    """Where the target must rest, let go of, for the checker to be satisfied."""

    IN_BASKET = "in_basket"
    ON_SHELF = "on_shelf"


@dataclass(frozen=True, slots=True)
class TabletopTask:
    slug: str
    """The middle of its env id, such as `pick_can_basket`."""
    target: str
    """Object name, such as `can_1`."""
    goal: Goal

    @property
    def instruction(self) -> str:
        noun = self.target.rsplit("_", 1)[0]
        match self.goal:
            case Goal.IN_BASKET:
                return f"pick up the {noun} and place it in the basket"
            case Goal.ON_SHELF:
                return f"put the {noun} on the shelf"


TASKS = {
    task.slug: task
    for task in (
        *(
            TabletopTask(f"pick_{category}_basket", f"{category}_1", Goal.IN_BASKET)
            for category in ("can", "box", "bottle", "slab", "bowl", "cup")
        ),
        *(
            TabletopTask(f"{category}_on_shelf", f"{category}_1", Goal.ON_SHELF)
            for category in ("cup", "bowl", "can", "box")
        ),
    )
}
