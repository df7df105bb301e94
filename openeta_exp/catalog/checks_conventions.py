"""Do adapter and policy mean the same by their numbers, as far as both declare it?"""

from __future__ import annotations

from collections.abc import Iterator

from openeta_exp.catalog.findings import Finding, suspect
from openeta_exp.catalog.messages import AdapterDescription, PolicyDescription
from openeta_exp.domain.identity import JsonObject
from openeta_exp.wire.catalog_files import SceneEntry


def judge_conventions(
    name: str, policy: PolicyDescription, adapter: AdapterDescription, scene: SceneEntry
) -> Iterator[Finding]:
    """Declared formats, and what a server says it wants the adapter to be built with."""
    yield from _compared(f"actions of policy {name}", policy.action_spec, adapter.action_spec)
    yield from _compared(
        f"observations for policy {name}", adapter.observation_spec, policy.observation_spec
    )
    yield from _wished_for(name, policy, scene)


def _compared(
    what: str, produced: JsonObject | None, consumed: JsonObject | None
) -> Iterator[Finding]:
    """Every part that both sides declare; a side that declares nothing is not held to it."""
    if not produced or not consumed:
        return
    for key, wanted in consumed.items():
        given = produced.get(key)
        if given is None:
            yield suspect(
                "convention_differs",
                f"{what}: {key} is expected, and only {sorted(produced)} is declared",
            )
        elif isinstance(given, dict) and isinstance(wanted, dict) and not _fits(given, wanted):
            yield suspect(
                "convention_differs",
                f"{what}: {key} is {given.get('format')} of length {given.get('dims')}, "
                f"expected is {wanted.get('format')} of length {wanted.get('dims')}",
                {"given": given, "wanted": wanted},
            )


def _fits(given: JsonObject, wanted: JsonObject) -> bool:
    accepted = wanted.get("accepts")
    if isinstance(accepted, list):
        return given.get("format") in accepted
    # 0 stands for what is no vector, and says nothing about a length.
    lengths = {each for each in (given.get("dims"), wanted.get("dims")) if each}
    return given.get("format") == wanted.get("format") and len(lengths) < 2


def _wished_for(name: str, policy: PolicyDescription, scene: SceneEntry) -> Iterator[Finding]:
    wishes = policy.identity.get("observation_params")
    params = scene.external.params if scene.external else {}
    for key, value in wishes.items() if isinstance(wishes, dict) else ():
        if params.get(key) != value:
            yield suspect(
                "observation_params_differ",
                f"policy {name} wants the adapter built with {key} = {value!r}; "
                f"scene {scene.id} says {params.get(key)!r}",
            )
