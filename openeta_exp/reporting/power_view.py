"""What a comparison would take, and what a gate would do, for a person or for a program."""

from __future__ import annotations

from typing import Literal

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from openeta_exp.domain.counting import counted
from openeta_exp.domain.gate import Gate, NoRegressionGate
from openeta_exp.domain.record import Record
from openeta_exp.statistics.agent_model import AgentModel
from openeta_exp.statistics.operating import OperatingPoint
from openeta_exp.statistics.planning import Plan
from openeta_exp.statistics.preflight import DesignReport, PairPrice

SCHEMA_VERSION: Literal["openeta_exp.command_power.v1"] = "openeta_exp.command_power.v1"


class PowerReport(Record):
    """Answer to `command=power`."""

    schema_version: Literal["openeta_exp.command_power.v1"] = SCHEMA_VERSION
    model: AgentModel
    """What is believed of the baseline."""
    alpha: float
    """Of the planned comparison."""
    power: float
    plan: Plan
    """What it takes to find the gain, whatever the configured gate is."""
    gate: Gate
    gate_alpha: float | None
    """The configured gate's level after the ledger; None in the mode that has none."""
    comparisons: int
    """Tests among which the ledger divides its errors."""
    tasks: int
    design: DesignReport
    """What the configured gate does with the pairs there are."""


def power_view(report: PowerReport) -> RenderableType:
    """The plan, then the configured gate."""
    plan, model = report.plan, report.model
    return Group(
        Text(
            f"to find a gain of {_points(plan.effect)} over {100 * model.success_rate:g} % "
            f"(ICC {model.icc:g}) with power {100 * report.power:g} % at alpha {report.alpha:g}",
            style="bold",
        ),
        Text(
            f"{counted(plan.n_max, 'pair')} by the exact test ({plan.approximate_pairs} by "
            f"Connor's formula), if the arms differ on {100 * plan.discordance:.0f} % of pairs"
        ),
        _table(
            f"sequential, up to {counted(plan.n_max, 'pair')}",
            {
                f"better by {_points(plan.effect)}": plan.if_gain,
                "equal": plan.if_equal,
                f"worse by {_points(min(plan.effect, model.success_rate))}": plan.if_harm,
            },
            price=report.design.price,
        ),
        Text(""),
        *_configured(report),
    )


def _configured(report: PowerReport) -> list[RenderableType]:
    design = report.design
    level = ""
    if report.gate_alpha is not None and not isinstance(report.gate, NoRegressionGate):
        level = f", alpha {report.gate_alpha:.3g}"
        if report.gate_alpha != report.gate.alpha:
            level += f" of its {report.gate.alpha:g} as one of {report.comparisons} comparisons"
    pairs = f"{counted(design.pairs, 'pair')} of {counted(report.tasks, 'task')}"
    parts: list[RenderableType] = [
        Text(f"the configured gate: {report.gate.mode}, {pairs}{level}", style="bold"),
        *(Text(problem) for problem in (*design.problems, *design.warnings)),
    ]
    if design.rows:
        points = {
            "equal"
            if not row.effect
            else counted(100 * row.effect, "point", spec="+.0f"): row.point
            for row in design.rows
        }
        parts.append(
            _table(
                f"at most {counted(design.most_pairs, 'pair')}", points, price=report.design.price
            )
        )
    return parts


def _table(title: str, points: dict[str, OperatingPoint], *, price: PairPrice) -> Table:
    costs = _costs(price)
    table = Table(
        title=title, title_justify="left", box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False
    )
    table.add_column("candidate")
    for name in ("promoted", "given up early", "pairs on average", *costs):
        table.add_column(name, justify="right")
    for name, point in points.items():
        table.add_row(
            name,
            _probability(point.promote, error=point.standard_error),
            _probability(point.reject),
            f"{point.mean_pairs:.0f}",
            *(f"{point.mean_pairs * cost:,.0f}" for cost in costs.values()),
        )
    return table


def _points(rate: float) -> str:
    return counted(100 * rate, "point", spec="g")


def _probability(chance: float, *, error: float = 0.0) -> str:
    return f"{100 * chance:.1f} %" + (f" ± {100 * error:.1f}" if error else "")


def _costs(price: PairPrice) -> dict[str, float]:
    """What one pair costs, in each unit that is known."""
    minutes = None if price.seconds is None else price.seconds / 60
    known = {"tokens": price.tokens, "$": price.usd, "minutes of episodes": minutes}
    return {unit: cost for unit, cost in known.items() if cost is not None}
