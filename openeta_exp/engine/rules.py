"""What ends a comparison: a gate, or the smoke test of a canary."""

from __future__ import annotations

from dataclasses import dataclass

from openeta_exp.domain.comparison import PairedComparison
from openeta_exp.domain.counting import counted
from openeta_exp.domain.gate import Flakiness, Gate, Terms
from openeta_exp.domain.generation import CanaryReport
from openeta_exp.domain.verdict import GateVerdict
from openeta_exp.engine.compare import GoOn
from openeta_exp.errors import InfrastructureError, ManifestError
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


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateRule:
    """How large is a difference? Runs every pair, because an end that depends on outcomes, such as
    a collision's, would select what is estimated."""

    gate: Gate
    terms: Terms

    def __call__(self, comparison: PairedComparison, *, over: bool) -> GateVerdict | GoOn:
        return judge(comparison, gate=self.gate, terms=self.terms) if over else GoOn(None)


class FlakinessRule:
    """How often does an agent disagree with itself? Runs every pair; decides nothing."""

    def __call__(self, comparison: PairedComparison, *, over: bool) -> Flakiness | None:
        """
        Raises:
            ManifestError: Every pair was solved at reset.
            InfrastructureError: No other pair has a verdict on both sides.
        """
        if not over:
            return None
        if not comparison.pairs and not comparison.broken:
            raise ManifestError(
                f"manifest: every pair of the A/A comparison ({len(comparison.excluded)}) was "
                "solved at reset, which says nothing; name other episodes or seeds, or set "
                "lineage.flakiness_pairs=0"
            )
        if not comparison.pairs:
            raise InfrastructureError("the A/A comparison brought no pair with a verdict")
        return measure_flakiness(comparison)


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryRule:
    """Does the candidate run at all? No statistical claim is made.

    Runs every pair, because a candidate is as likely to break late as early. Pairs that were solved
    at reset are left out; a canary of nothing else shows nothing, and so lets nobody pass.
    """

    comparison_id: str

    def __call__(self, comparison: PairedComparison, *, over: bool) -> CanaryReport | GoOn:
        if not over:
            return GoOn(None)
        runs = [pair for pair in comparison.observations if not pair.solved_at_reset]
        broke = [pair for pair in runs if pair.candidate.broke]
        unsafe = sum(pair.candidate.safety_violations for pair in runs)
        unlawful = sum(pair.candidate.contract_violations for pair in runs)
        successes = sum(pair.candidate.objective_success for pair in runs)
        classes = sorted({pair.candidate.failure_class or "" for pair in broke})
        idle = len(comparison.observations) - len(runs)
        solved_none = "solved no canary episode"
        if not runs and idle:
            solved_none = (
                f"every canary episode ({idle}) was solved at reset, which says nothing about the "
                "candidate; name other episodes or seeds in canary"
            )
        problems = {
            f"broke in {len(broke)} of {counted(len(runs), 'pair')} "
            f"({', '.join(classes)})": not _uneven(comparison),
            counted(unsafe, "safety violation"): unsafe == 0,
            counted(unlawful, "contract violation"): unlawful == 0,
            solved_none: successes > 0,
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
    pairs = comparison.broken
    candidate_only = sum(each.candidate.broke and not each.baseline.broke for each in pairs)
    baseline_only = sum(each.baseline.broke and not each.candidate.broke for each in pairs)
    return candidate_only > baseline_only
