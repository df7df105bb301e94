"""What ends a comparison: a gate, or the smoke test of a canary."""

from __future__ import annotations

from dataclasses import dataclass

from openeta_exp.domain.comparison import PairedComparison
from openeta_exp.domain.gate import Flakiness, Gate, Terms
from openeta_exp.domain.generation import CanaryReport
from openeta_exp.domain.verdict import GateVerdict
from openeta_exp.engine.compare import GoOn
from openeta_exp.errors import InfrastructureError
from openeta_exp.statistics.flakiness import measure_flakiness
from openeta_exp.statistics.gate import Continue, judge, review


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRule:
    """Judge by a gate, look by look."""

    gate: Gate
    terms: Terms

    def __call__(self, comparison: PairedComparison, *, over: bool) -> GateVerdict | GoOn:
        if over:
            return judge(comparison, gate=self.gate, terms=self.terms)
        answer = review(comparison, gate=self.gate, terms=self.terms)
        return GoOn(answer.next_look) if isinstance(answer, Continue) else answer


class FlakinessRule:
    """How often does an agent disagree with itself? Runs every pair; decides nothing."""

    def __call__(self, comparison: PairedComparison, *, over: bool) -> Flakiness | None:
        """Raises: InfrastructureError: No pair has a verdict on both sides."""
        if not over:
            return None
        if not comparison.pairs:
            raise InfrastructureError("the A/A comparison brought no pair with a verdict")
        return measure_flakiness(comparison)


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryRule:
    """Does the candidate run at all? No statistical claim is made.

    Runs every pair, because a candidate is as likely to break late as early.
    """

    comparison_id: str

    def __call__(self, comparison: PairedComparison, *, over: bool) -> CanaryReport | GoOn:
        if not over:
            return GoOn(None)
        runs = comparison.observations
        broke = [pair for pair in runs if pair.candidate.broke]
        unsafe = sum(pair.candidate.safety_violations for pair in runs)
        unlawful = sum(pair.candidate.contract_violations for pair in runs)
        successes = sum(pair.candidate.objective_success for pair in runs)
        classes = sorted({pair.candidate.failure_class or "" for pair in broke})
        problems = {
            f"broke in {len(broke)} of {len(runs)} pairs ({', '.join(classes)})": not _uneven(
                comparison
            ),
            f"{unsafe} safety violations": unsafe == 0,
            f"{unlawful} contract violations": unlawful == 0,
            "solved no canary episode": successes > 0,
        }
        return CanaryReport(
            comparison_id=self.comparison_id,
            pairs=len(runs),
            candidate_successes=successes,
            baseline_successes=sum(pair.baseline.objective_success for pair in runs),
            problems=tuple(problem for problem, held in problems.items() if not held),
        )


def _uneven(comparison: PairedComparison) -> bool:
    """The candidate breaks where the baseline does not."""
    pairs = comparison.observations
    candidate_only = sum(each.candidate.broke and not each.baseline.broke for each in pairs)
    baseline_only = sum(each.baseline.broke and not each.candidate.broke for each in pairs)
    return candidate_only > baseline_only
