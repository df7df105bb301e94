"""Does a policy see what the adapter sends, and are two policies two?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pydantic import Field

from openeta_exp.catalog.findings import Finding, invalid, ok, suspect
from openeta_exp.catalog.messages import PolicyDescription, TaskAccess
from openeta_exp.domain.counting import counted
from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.record import Record
from openeta_exp.wire.explain import nearest

_ABOVE_NOISE = 3.0
_SMALLEST = 1e-6
_SATURATED = 0.95
_STATES = frozenset({"state", "states"})


class Sensitivity(Record):
    """By observation key: how far the first action moves when only that key changes."""

    noise: float
    change: dict[str, float]
    errors: dict[str, str]
    images: tuple[str, ...]

    def ignores(self, key: str) -> bool:
        return self.change.get(key, 0.0) <= max(_ABOVE_NOISE * self.noise, _SMALLEST)


class PolicyProbe(Record):
    """One policy's rollout, and its answers to changed observations."""

    error: str | None
    error_class: str | None
    access: TaskAccess
    steps: int
    success: bool | None
    sent: tuple[str, ...]
    sensitivity: Sensitivity
    action_dim: int | None = None
    constant: bool = False
    saturated: tuple[float, ...] = ()


class FingerprintPair(Record):
    pair: tuple[str, str]
    known: bool
    largest: float | None
    dims: tuple[int | None, int | None]


class Fingerprints(Record):
    """Answers of every policy to one sequence of observations, compared."""

    observations: int
    pairs: tuple[FingerprintPair, ...]
    complete: bool = False


class PoliciesReport(Record):
    """A worker's answer to a probe of policies."""

    policies: dict[str, PolicyProbe] = Field(default_factory=dict)
    fingerprints: Fingerprints

    @property
    def action_dim(self) -> int | None:
        """Length of an action, as the first policy that acted has it."""
        dims = (probe.action_dim for probe in self.policies.values())
        return next((dim for dim in dims if dim is not None), None)


def judge_policies(
    report: PoliciesReport, described: Mapping[str, PolicyDescription]
) -> list[Finding]:
    """What the probe says about every policy; `Twins` says it about every two."""
    found: list[Finding] = []
    for name, probe in report.policies.items():
        requires = described[name].requires
        found += _broken(name, probe)
        found += _required(name, probe, requires)
        found += _missed(name, probe)
        if probe.error is None:
            found += _blind(name, probe, requires)
            found += _actions(name, probe)
    return found


def _broken(name: str, probe: PolicyProbe) -> Iterator[Finding]:
    if probe.error is not None:
        yield invalid(
            "policy_rollout_fails",
            f"policy {name} cannot finish an episode: {probe.error}",
            {"steps": probe.steps, "class": probe.error_class},
        )


def _required(name: str, probe: PolicyProbe, requires: Sequence[str] | None) -> Iterator[Finding]:
    if requires is None or not probe.sent:
        return
    evidence: JsonObject = {"requires": list(requires), "sent": list(probe.sent)}
    absent = [key for key in requires if key not in probe.sent]
    for key in absent:
        yield invalid(
            "observation_key_absent",
            f"policy {name} needs {key}, which the adapter does not send; "
            f"{nearest(key, probe.sent)}",
            evidence,
        )
    if not absent:
        yield ok("observation_key_absent", f"policy {name} gets every key it needs", evidence)


def _missed(name: str, probe: PolicyProbe) -> Iterator[Finding]:
    """Keys an in-process policy asked for in vain."""
    for key in probe.access.missed:
        close = nearest(key, probe.sent)
        certain = "did you mean" in close or key.startswith("images.")
        make = invalid if certain else suspect
        silent = " and goes on without it" if key in probe.access.defaulted else ""
        yield make(
            "observation_key_absent",
            f"policy {name} asks for {key}, which the adapter does not send{silent}; {close}",
            {"asked": list(probe.access.missed), "sent": list(probe.sent)},
        )


def _blind(name: str, probe: PolicyProbe, requires: Sequence[str] | None) -> Iterator[Finding]:
    seen = probe.sensitivity
    evidence: JsonObject = seen.model_dump(mode="json")
    used = [key for key in seen.change if not seen.ignores(key)]
    if seen.change and not used:
        yield invalid(
            "policy_ignores_observation",
            f"policy {name} answers the same whatever it sees: no key of {list(seen.change)} "
            "changes its actions",
            evidence,
        )
        return
    images = [key for key in seen.images if not seen.ignores(key)]
    if seen.images and not images and not _needs_no_image(probe, requires):
        yield invalid(
            "policy_is_blind",
            f"no image changes the actions of policy {name}: {list(seen.images)} are sent; "
            "check the camera's name on the model's side, or list what it needs in `requires`",
            evidence,
        )
    unread = [key for key in seen.change if key in _STATES and seen.ignores(key)]
    if unread and requires is None and _asked_nothing(probe):
        other = next(iter(_STATES - set(unread)), "")
        yield suspect(
            "policy_ignores_key",
            f"policy {name} ignores {unread[0]}; many models read {other} instead",
            evidence,
        )
    if used:
        yield ok("policy_sensitivity", f"policy {name} acts on {used}", evidence)


def _needs_no_image(probe: PolicyProbe, requires: Sequence[str] | None) -> bool:
    """Whether not looking at an image is known to be intended."""
    if requires is not None:
        return not any(key in probe.sensitivity.images for key in requires)
    asked = (*probe.access.read, *probe.access.missed)
    return bool(asked) and not any(key.split(".")[0] == "images" for key in asked)


def _asked_nothing(probe: PolicyProbe) -> bool:
    """Nothing could be watched: the policy is behind a socket, or reads everything at once."""
    return not probe.access.read or probe.access.bulk


def _actions(name: str, probe: PolicyProbe) -> Iterator[Finding]:
    if probe.constant:
        yield suspect(
            "actions_constant",
            f"policy {name} gave one and the same action {counted(probe.steps, 'time')}",
            {"steps": probe.steps},
        )
    # The last number is a gripper as a rule, and a gripper is at one of its ends.
    arm = probe.saturated[:-1] or probe.saturated
    if arm and min(arm) >= _SATURATED:
        yield suspect(
            "actions_saturated",
            f"policy {name} pushes every action to its limit: units or scaling may be wrong",
            {"fraction_at_limit": list(probe.saturated)},
        )


class Twins:
    """Are two policies two? Answers to the same observations, over as many episodes as it takes.

    Policies that differ may answer one scenario alike, or one task, and these are not all.
    """

    def __init__(self, identities: Mapping[str, str]) -> None:
        """
        Args:
            identities: Of every policy: its code, parameters and weights.
        """
        self._identities = identities
        self._seen: dict[tuple[str, str], list[tuple[FingerprintPair, Fingerprints]]] = {}

    def add(self, prints: Fingerprints) -> None:
        """Take what one more episode says."""
        for each in prints.pairs:
            self._seen.setdefault(each.pair, []).append((each, prints))

    @property
    def alike(self) -> tuple[str, ...]:
        """Policies that answer like another one so far."""
        pairs = [pair for pair in self._seen if self._is_alike(pair)]
        return tuple(dict.fromkeys(name for pair in pairs for name in pair))

    def _is_alike(self, pair: tuple[str, str]) -> bool:
        return all(each.known and each.largest == 0 for each, _ in self._seen[pair])

    def findings(self) -> Iterator[Finding]:
        """What all episodes together say."""
        for pair, seen in self._seen.items():
            first, second = pair
            apart = [each for each, _ in seen if each.known and each.largest != 0]
            unlike = [each.dims for each, _ in seen if _differ(each.dims)]
            observations = sum(prints.observations for _, prints in seen)
            evidence: JsonObject = {
                "episodes": len(seen),
                "observations": observations,
                "largest": max((each.largest or 0.0 for each in apart), default=None),
            }
            if unlike:
                yield invalid(
                    "action_dimensions_differ",
                    f"policy {first} answers with actions of length {unlike[0][0]}, {second} with "
                    f"{unlike[0][1]}",
                )
            elif apart:
                yield ok("identical_policies", f"{first} and {second} are two policies", evidence)
            elif self._is_alike(pair):
                answers = (
                    f"policies {first} and {second} answer "
                    f"{counted(observations, 'observation')} identically"
                )
                yield self._alike(pair, answers, evidence)

    def _alike(self, pair: tuple[str, str], answers: str, evidence: JsonObject) -> Finding:
        first, second = pair
        if self._identities[first] != self._identities[second]:
            return suspect(
                "identical_policies",
                f"{answers}, although their code, parameters, weights or addresses differ: they "
                "may be one policy, or differ on other scenarios only",
                evidence,
            )
        make = invalid if all(prints.complete for _, prints in self._seen[pair]) else suspect
        return make("identical_policies", f"{answers}: they are one policy", evidence)


def _differ(dims: tuple[int | None, int | None]) -> bool:
    return None not in dims and dims[0] != dims[1]
