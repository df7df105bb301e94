"""`command=compare` while a policy breaks on some of its episodes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from openeta_exp.domain.event import ComparisonEnded
from openeta_exp.domain.policy_comparison import Ending, Standing
from openeta_exp.domain.verdict import Decision
from tests.catalog.toy_policies import Homing
from tests.catalog_cli.comparing import WEAK, Compared, compare, toy_catalog


class Fragile(Homing):
    """Breaks on the scenarios that start furthest to the right, one in six."""

    def act(self, observation: Mapping[str, Any]) -> Any:
        if observation["states"][0] > 0.5:
            raise RuntimeError("out of memory")
        return super().act(observation)


FRAGILE = (
    "policy@fragile=tests.catalog_cli.test_partial:Fragile",
    "fragile.params={gain: 5.0}",
    "catalog.attempts=1",
    "gate.guardrails.exclusion_alpha=0.01",
)
"""It wins where it does not break, and four breakages alone are not held against it."""


@pytest.mark.parametrize("repeats", [1, 2])
def test_a_partial_result_names_no_policy_better(tmp_path: Path, repeats: int) -> None:
    toy_catalog(tmp_path)
    asked = (*WEAK, *FRAGILE, f"catalog.repeats={repeats}")

    partial = compare(tmp_path, *asked)
    page = (partial.folder / "report.html").read_text(encoding="utf-8")
    tolerated = compare(tmp_path, *asked, "catalog.max_missing_share=0.2")

    assert (partial.code, partial.result.reason) == (3, Ending.PARTIAL)
    assert partial.contrast.missing == 4 * repeats
    assert partial.contrast.standing is Standing.INCONCLUSIVE
    assert partial.contrast.tasks[0].standing is Standing.INCONCLUSIVE
    assert partial.contrast.better.codes[0] == "too_few_pairs:missing"
    assert _announced(partial) is Decision.INCONCLUSIVE
    assert "<b>INCONCLUSIVE</b>" in page
    assert "BETTER" not in page
    assert (tolerated.code, tolerated.contrast.standing) == (0, Standing.BETTER)
    assert _announced(tolerated) is Decision.PROMOTE


def _announced(found: Compared) -> Decision:
    ended = [event for event in found.events if isinstance(event, ComparisonEnded)]
    verdict = ended[-1].verdict
    assert verdict is not None
    return verdict.decision
