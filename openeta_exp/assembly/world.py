"""Settings -> the ports an episode needs, started and ended together."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import assert_never

import anyio
from anyio import to_thread

from openeta_exp.adapters.clock import SystemClock
from openeta_exp.adapters.mcp_connection import Transport, load_mcp
from openeta_exp.adapters.perception.mcp_perception import McpPerception
from openeta_exp.adapters.planner.history import HistoryLimits
from openeta_exp.adapters.planner.model_planner import ModelPlanner, PlannerLimits
from openeta_exp.adapters.planner.validation import load_jsonschema
from openeta_exp.adapters.provider.by_role import ByRoleProvider
from openeta_exp.adapters.provider.endpoint import EndpointConfig, load_openai
from openeta_exp.adapters.provider.limiter import ProviderLimiter
from openeta_exp.adapters.provider.meter import SpendingMeter
from openeta_exp.adapters.provider.openai_provider import OpenAiProvider
from openeta_exp.adapters.simulator.mcp_session import CallLimits
from openeta_exp.adapters.simulator.mcp_simulator import McpSimulator, ViewSettings
from openeta_exp.adapters.store.artifact_tree import baseline_folders, read_tree
from openeta_exp.adapters.store.spending_ledger import MemoryLedger
from openeta_exp.assembly.machine import environment_processes
from openeta_exp.assembly.money import spending_meter
from openeta_exp.assembly.publication import registry_tree
from openeta_exp.domain.artifact import ArtifactTree
from openeta_exp.domain.manifest import Manifest
from openeta_exp.domain.model import ModelRole
from openeta_exp.embedded.addresses import EmbeddedAddresses, HostOptions, SimulatorRequest
from openeta_exp.embedded.launch import embedded_host
from openeta_exp.ports.clock import Clock
from openeta_exp.ports.perception import Perception
from openeta_exp.ports.planner import Planner
from openeta_exp.ports.provider import Provider
from openeta_exp.ports.sandbox import Sandbox
from openeta_exp.ports.simulator import Simulator
from openeta_exp.settings.agent import MontySandboxSettings, NoSandboxSettings
from openeta_exp.settings.command import IterateSettings
from openeta_exp.settings.experiment import REGISTRY_TREE, ExperimentSettings
from openeta_exp.settings.model import (
    EmbeddedProviderSettings,
    EndpointSettings,
    ModelPlannerSettings,
    OpenAiProviderSettings,
    ProviderSettings,
)
from openeta_exp.settings.world import (
    EmbeddedPerceptionSettings,
    EmbeddedSimulatorSettings,
    McpPerceptionSettings,
    McpSimulatorSettings,
    NoPerceptionSettings,
)

_EMBEDDED_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What episodes run in, without what a particular arm adds."""

    simulator: Simulator
    perception: Perception | None
    provider: Provider
    planner: Planner
    sandbox: Sandbox | None
    clock: Clock


def is_scripted(settings: ExperimentSettings) -> bool:
    """True if a scripted model stands in for a real one; stamped in every result."""
    return isinstance(settings.provider, EmbeddedProviderSettings)


def baseline_tree(settings: ExperimentSettings) -> ArtifactTree:
    """Raises: ArtifactError: With every broken file."""
    shipped = Path(str(files("openeta_exp.embedded.baselines")))
    if settings.baseline.tree == REGISTRY_TREE:
        standard = read_tree(baseline_folders("standard", shipped=shipped))
        return registry_tree(settings, skills_of=standard)
    return read_tree(baseline_folders(settings.baseline.tree, shipped=shipped))


@asynccontextmanager
async def open_provider(settings: ExperimentSettings) -> AsyncIterator[Provider]:
    """The models alone, without a simulator. The caps of `money` are for this command alone.

    Raises:
        SettingsError: A key cannot be sent.
        SimulatorError: The embedded host did not start.
    """
    given = settings.provider
    _check_endpoints(given)
    async with AsyncExitStack() as stack:
        addresses = None
        if isinstance(given, EmbeddedProviderSettings):
            options = HostOptions(simulator=None, models=True, faults=_faults(given))
            addresses = await stack.enter_async_context(embedded_host(options))
        meter = spending_meter(settings, MemoryLedger())
        provider = _provider(settings, addresses, clock=SystemClock(), meter=meter)
        stack.push_async_callback(provider.aclose)
        yield provider


@asynccontextmanager
async def open_world(
    settings: ExperimentSettings, manifest: Manifest, *, meter: SpendingMeter | None = None
) -> AsyncIterator[World]:
    """Start what is embedded, connect to what is not, and end all of it on the way out.

    Args:
        meter: Of the experiment; without it the caps of `money` are for this command alone.

    Raises:
        SettingsError: A key cannot be sent; nothing was started.
        SimulatorError: The embedded host did not start.
    """
    clock = SystemClock()
    _check_endpoints(settings.provider)
    async with AsyncExitStack() as stack:
        async with anyio.create_task_group() as group:
            # The clients take seconds to import, and the embedded host takes as long to start.
            group.start_soon(to_thread.run_sync, _import_clients)
            addresses = await _embedded(stack, settings, manifest)
        simulator = _simulator(settings, addresses)
        stack.push_async_callback(simulator.aclose)
        perception = _perception(settings, addresses)
        if perception is not None:
            stack.push_async_callback(perception.aclose)
        meter = meter or spending_meter(settings, MemoryLedger())
        provider = _provider(settings, addresses, clock=clock, meter=meter)
        stack.push_async_callback(provider.aclose)
        yield World(
            simulator=simulator,
            perception=perception,
            provider=provider,
            planner=_planner(settings, provider),
            sandbox=_sandbox(stack, settings),
            clock=clock,
        )


def _sandbox(stack: AsyncExitStack, settings: ExperimentSettings) -> Sandbox | None:
    match settings.sandbox:
        case NoSandboxSettings():
            return None
        case MontySandboxSettings(processes=processes):
            from openeta_exp.adapters.sandbox.monty import MontySandbox

            sandbox = MontySandbox(max_processes=processes)
            stack.push_async_callback(sandbox.aclose)
            return sandbox
        case _:
            assert_never(settings.sandbox)


def _import_clients() -> None:
    load_mcp()
    load_openai()
    load_jsonschema()


async def _embedded(
    stack: AsyncExitStack, settings: ExperimentSettings, manifest: Manifest
) -> EmbeddedAddresses | None:
    simulator, provider = settings.simulator, settings.provider
    options = HostOptions(
        simulator=SimulatorRequest(
            max_processes=simulator.max_processes
            or environment_processes(
                manifest,
                settings.concurrency.episodes,
                take_turns=isinstance(settings.command, IterateSettings),
            ),
            quality=simulator.quality,
            gl=simulator.gl,
            call_timeout_s=simulator.call_timeout_s,
        )
        if isinstance(simulator, EmbeddedSimulatorSettings)
        else None,
        models=isinstance(provider, EmbeddedProviderSettings),
        faults=_faults(provider) if isinstance(provider, EmbeddedProviderSettings) else "",
    )
    if options.simulator is None and not options.models:
        return None
    return await stack.enter_async_context(embedded_host(options))


def _faults(provider: EmbeddedProviderSettings) -> str:
    parts = [f"latency={provider.latency_s:.6f}"] if provider.latency_s else []
    return ",".join([*parts, *([provider.faults] if provider.faults else [])])


def _simulator(settings: ExperimentSettings, addresses: EmbeddedAddresses | None) -> McpSimulator:
    simulator = settings.simulator
    match simulator:
        case EmbeddedSimulatorSettings():
            url, transport = _known(addresses).simulator_url, "streamable_http"
        case McpSimulatorSettings(url=address):
            url, transport = str(address), simulator.transport
        case _:
            assert_never(simulator)
    return McpSimulator(
        url,
        transport=Transport(transport),
        view=ViewSettings(
            cameras=simulator.cameras,
            image_width=simulator.image_width,
            image_height=simulator.image_height,
        ),
        limits=CallLimits(
            call_timeout_s=simulator.call_timeout_s, close_timeout_s=simulator.close_timeout_s
        ),
    )


def _perception(
    settings: ExperimentSettings, addresses: EmbeddedAddresses | None
) -> Perception | None:
    match settings.perception:
        case EmbeddedPerceptionSettings():
            url = _known(addresses).perception_url
            return McpPerception(sam3_url=url, anygrasp_url=url, timeout_s=_EMBEDDED_TIMEOUT_S)
        case McpPerceptionSettings(sam3_url=sam3, anygrasp_url=anygrasp, timeout_s=timeout_s):
            return McpPerception(
                sam3_url=None if sam3 is None else str(sam3),
                anygrasp_url=None if anygrasp is None else str(anygrasp),
                timeout_s=timeout_s,
            )
        case NoPerceptionSettings():
            return None
        case _:
            assert_never(settings.perception)


_SCRIPTED_ROLES = {
    ModelRole.STRATEGY_AUTHOR: "scripted-author",
    ModelRole.STRATEGY_REVIEWER: "scripted-reviewer",
    ModelRole.SKILL_AUTHOR: "scripted-skill-author",
    ModelRole.SKILL_REVIEWER: "scripted-skill-reviewer",
    ModelRole.ACTION_REVIEWER: "scripted-action-reviewer",
    ModelRole.GUIDANCE: "scripted-guidance",
}


def _provider(
    settings: ExperimentSettings,
    addresses: EmbeddedAddresses | None,
    *,
    clock: Clock,
    meter: SpendingMeter,
) -> Provider:
    limits = settings.concurrency
    limiter = ProviderLimiter(
        limits.provider, queue_timeout_s=limits.provider_queue_timeout_s, clock=clock
    )
    given = settings.provider
    match given:
        case EmbeddedProviderSettings():
            base_url = _known(addresses).models_url

            def scripted(model: str) -> OpenAiProvider:
                endpoint = EndpointConfig(base_url=base_url, model=model, timeout_s=given.timeout_s)
                return OpenAiProvider(
                    endpoint,
                    limiter=limiter,
                    clock=clock,
                    max_attempts=given.max_attempts,
                    backoff_s=given.backoff_s,
                    meter=meter,
                )

            roles = {**_SCRIPTED_ROLES, **given.role_models}
            models = {name: scripted(name) for name in set(roles.values())}
            return ByRoleProvider(
                scripted(given.model), {role: models[name] for role, name in roles.items()}
            )
        case OpenAiProviderSettings():

            def real(model: str) -> OpenAiProvider:
                return OpenAiProvider(
                    replace(_endpoint(given, timeout_s=given.timeout_s), model=model),
                    fallback=None
                    if given.fallback is None
                    else _endpoint(given.fallback, timeout_s=given.timeout_s),
                    limiter=limiter,
                    clock=clock,
                    max_attempts=given.max_attempts,
                    backoff_s=given.backoff_s,
                    meter=meter,
                )

            if not given.role_models:
                return real(given.model)
            others = {name: real(name) for name in set(given.role_models.values())}
            return ByRoleProvider(
                real(given.model), {role: others[name] for role, name in given.role_models.items()}
            )
        case _:
            assert_never(given)


def _check_endpoints(given: ProviderSettings) -> None:
    """Raises: SettingsError: A key cannot be sent."""
    if isinstance(given, OpenAiProviderSettings):
        for each in (given, given.fallback):
            if each is not None:
                _endpoint(each, timeout_s=given.timeout_s)


def _endpoint(given: EndpointSettings, *, timeout_s: float) -> EndpointConfig:
    return EndpointConfig(
        base_url=str(given.base_url),
        model=given.model,
        api_key=os.environ.get(given.api_key_env, ""),
        timeout_s=timeout_s,
    )


def _planner(settings: ExperimentSettings, provider: Provider) -> Planner:
    match settings.planner:
        case ModelPlannerSettings() as given:
            return ModelPlanner(
                provider,
                scripted=is_scripted(settings),
                limits=PlannerLimits(
                    max_output_tokens=given.max_output_tokens,
                    validation_retries=given.validation_retries,
                    max_skills=given.max_skills,
                    history=HistoryLimits(
                        max_turns=given.max_history_turns,
                        max_characters=given.max_history_characters,
                    ),
                ),
            )
        case _:
            assert_never(settings.planner)


def _known(addresses: EmbeddedAddresses | None) -> EmbeddedAddresses:
    assert addresses is not None, "the embedded host serves what the settings ask for"
    return addresses
