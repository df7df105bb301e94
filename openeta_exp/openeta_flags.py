"""The flags of OpenETA's own command lines, and the overrides that say the same."""

from __future__ import annotations

import argparse
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from openeta_exp.iterate_flags import (
    add_iterate_flags,
    iterate_overrides,
    iterate_problems,
    misplaced,
)
from openeta_exp.wire.override_text import override_text, override_texts

COMMANDS = ("preflight", "run", "iterate", "capacity", "inspect")

_NUMBERS = {
    "concurrency": "concurrency.episodes",
    "provider_concurrency": "concurrency.provider",
    "provider_queue_timeout_s": "concurrency.provider_queue_timeout_s",
}
_TEXTS = {"manifest": "manifest.path", "model": "provider.model", "on_need_human": "on_need_human"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One command line, understood.

    Attributes:
        problems: Flags that cannot be carried out, one sentence each.
        overrides: What to compose the settings from.
        report: What a run prints: the result file itself, a short report, or one with all of it.
        copy_to: Where the result file is copied.
    """

    problems: tuple[str, ...]
    overrides: tuple[str, ...]
    report: Literal["result", "short", "full"]
    copy_to: Path | None = None


def read_batch_line(arguments: list[str]) -> Asked:
    """Read the arguments of `openeta-batch`; wrong usage ends the program with exit code 2."""
    parser = _parser("openeta-batch", "Run a manifest of episodes; prints the whole result.")
    parser.add_argument("--batch-id", help="names the run; the same name continues it")
    parser.add_argument("--output", type=Path, help="where to copy the result file to")
    parser.add_argument("--validate-only", action="store_true", help="check; no network")
    parser.add_argument("--resume-session", help="session of a paused episode, to go on with it")
    parser.add_argument("--interaction-id", help="the question that is answered")
    parser.add_argument("--answer", help="what to tell the agent")
    flags = parser.parse_intermixed_args(arguments)
    if flags.resume_session is not None:
        return _resume(flags)
    return Asked(
        problems=(
            *_missing_manifest(flags),
            *(
                f"--{name}: belongs to --resume-session"
                for name in ("interaction-id", "answer")
                if getattr(flags, name.replace("-", "_")) is not None
            ),
        ),
        overrides=(
            f"command={'validate' if flags.validate_only else 'run'}",
            *_shared(flags, experiment_id=flags.batch_id),
            *flags.overrides,
        ),
        report="result",
        copy_to=flags.output,
    )


def read_subagent_line(arguments: list[str]) -> Asked:
    """Read the arguments of `openeta-subagent-eval`; wrong usage ends it with exit code 2."""
    parser = argparse.ArgumentParser(
        prog="openeta-subagent-eval",
        description="Examine reviewers, authors and guidance; prints the whole report.",
        allow_abbrev=False,
    )
    parser.add_argument("--role", action="append", help="only this role; may be repeated")
    parser.add_argument("--case", action="append", help="only this case or family; may be repeated")
    parser.add_argument("--repeat", help="how often each case is asked (1)")
    parser.add_argument("--model", help="model to examine")
    parser.add_argument("--timeout-s", help="longest wait for one answer")
    parser.add_argument("--output", type=Path, help="where to copy the report to")
    parser.add_argument("--list-cases", action="store_true", help="list the cases and end")
    parser.add_argument("--strict", action="store_true", help="exit 1 on any failure or danger")
    parser.add_argument("overrides", nargs="*", metavar="FIELD=VALUE", help="anything in conf/")
    flags = parser.parse_intermixed_args(arguments)
    overrides = [
        "command=subagent_eval",
        "command.format=json",
        f"command.strict={str(flags.strict).lower()}",
        f"command.list_cases={str(flags.list_cases).lower()}",
        *(["provider=openai"] if os.environ.get("OPENETA_LLM_API_BASE") else []),
    ]
    for field, names in (("roles", flags.role), ("cases", flags.case)):
        if names:
            overrides.append(f"command.{field}=[{','.join(quoted(each) for each in names)}]")
    for field, value in (
        ("command.repeats", flags.repeat),
        ("provider.timeout_s", flags.timeout_s),
    ):
        if value is not None:
            overrides.append(f"{field}={value}")
    if flags.model is not None:
        overrides.append(f"provider.model={quoted(flags.model)}")
    return Asked(
        problems=(),
        overrides=(*overrides, *flags.overrides),
        report="result",
        copy_to=flags.output,
    )


def _resume(flags: argparse.Namespace) -> Asked:
    given = {"interaction_id": flags.interaction_id, "answer": flags.answer}
    return Asked(
        problems=(),
        overrides=(
            "command=resume",
            f"command.session_id={quoted(flags.resume_session)}",
            *(
                f"command.{name}={quoted(value)}"
                for name, value in given.items()
                if value is not None
            ),
            *flags.overrides,
        ),
        report="result",
    )


def read_command_line(arguments: list[str]) -> Asked:
    """Read the arguments of `openeta`; wrong usage ends the program with exit code 2."""
    parser = _parser("openeta", "Run unattended; prints a short report.")
    parser.add_argument("--command", required=True, metavar="|".join(COMMANDS))
    parser.set_defaults(approvement="reviewed_autonomy")
    parser.add_argument("--experiment-id", help="the same id continues the same experiment")
    parser.add_argument("--episode-id", action="append", help="run only this; may be repeated")
    parser.add_argument("--on-need-human", metavar="fail|pause")
    parser.add_argument("--require-perception", action="store_true")
    parser.add_argument("--skip-mcp-check", action="store_true")
    parser.add_argument("--mcp-timeout-s")
    parser.add_argument("--print-full-result", action="store_true")
    add_iterate_flags(parser)
    flags, unknown = parser.parse_known_intermixed_args(arguments)
    problems: list[str] = []
    if flags.command not in COMMANDS:
        problems.append(
            f"--command {flags.command}: is not part of this release; use {', '.join(COMMANDS)}"
        )
    elif unknown:
        problems.append(f"{' '.join(unknown)}: no such flag; `openeta --help` lists them")
    elif flags.command == "iterate":
        problems += iterate_problems(flags)
    else:
        problems += misplaced(flags)
        problems += _missing_manifest(flags) if flags.command != "inspect" else []
    return Asked(
        problems=tuple(problems),
        overrides=(
            f"command={flags.command}",
            *_shared(flags, experiment_id=flags.experiment_id),
            *(_preflight(flags) if flags.command == "preflight" else ()),
            *(iterate_overrides(flags) if flags.command == "iterate" else ()),
            *_selection(flags.episode_id),
            *flags.overrides,
        ),
        report="full" if flags.print_full_result else "short",
    )


def _parser(prog: str, description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=prog,
        description=f"{description} Every flag is an override of conf/, with its defaults.",
        allow_abbrev=False,
    )
    # Values stay texts: conf/ decides what is a number, with the messages it has for that.
    parser.add_argument("--manifest", help="JSON or YAML file of episodes")
    parser.add_argument("--concurrency", help="episodes in flight, 1 to 32 (10)")
    parser.add_argument("--provider-concurrency", help="model calls in flight (2)")
    parser.add_argument("--provider-queue-timeout-s", help="longest wait for a model call (180)")
    parser.add_argument("--model", help="model to plan with")
    parser.add_argument("--sim-url", help="MCP address of a running simulator")
    parser.add_argument("--sam3-url", help="MCP address of a running SAM3")
    parser.add_argument("--anygrasp-url", help="MCP address of a running AnyGrasp")
    parser.add_argument("--approvement", metavar="human_gated|standard|reviewed_autonomy")
    parser.add_argument("overrides", nargs="*", metavar="FIELD=VALUE", help="anything in conf/")
    parser.set_defaults(on_need_human=None)
    return parser


def _missing_manifest(flags: argparse.Namespace) -> list[str]:
    if flags.manifest is not None:
        return []
    return ["--manifest: is missing; name a JSON or YAML file of episodes"]


def _shared(flags: argparse.Namespace, *, experiment_id: str | None) -> list[str]:
    overrides = _services(flags)
    if flags.approvement:
        overrides.append(f"approvement={flags.approvement}")
    manifest = flags.manifest or getattr(flags, "train_manifest", None)
    name = experiment_id or (manifest and _name_after(manifest))
    if name:
        overrides.append(f"experiment_id={quoted(name)}")
    for flag, field in _TEXTS.items():
        if getattr(flags, flag) is not None:
            overrides.append(f"{field}={quoted(getattr(flags, flag))}")
    for flag, field in _NUMBERS.items():
        if getattr(flags, flag) is not None:
            overrides.append(f"{field}={getattr(flags, flag)}")
    return overrides


def _services(flags: argparse.Namespace) -> list[str]:
    """Services that are named replace the embedded ones."""
    services = ["provider=openai"] if os.environ.get("OPENETA_LLM_API_BASE") else []
    if flags.sim_url:
        services += ["simulator=mcp", f"simulator.url={quoted(flags.sim_url)}"]
    if flags.sam3_url or flags.anygrasp_url:
        services.append("perception=mcp")
    elif flags.sim_url:
        services.append("perception=none")
    if flags.sam3_url:
        services.append(f"perception.sam3_url={quoted(flags.sam3_url)}")
    if flags.anygrasp_url:
        services.append(f"perception.anygrasp_url={quoted(flags.anygrasp_url)}")
    return services


def _preflight(flags: argparse.Namespace) -> list[str]:
    overrides = [
        f"command.require_perception={str(flags.require_perception).lower()}",
        f"command.skip_mcp_check={str(flags.skip_mcp_check).lower()}",
    ]
    if flags.mcp_timeout_s is not None:
        overrides.append(f"command.mcp_timeout_s={flags.mcp_timeout_s}")
    return overrides


def _selection(episode_ids: list[str] | None) -> list[str]:
    if not episode_ids:
        return []
    return [f"episodes={override_texts(episode_ids)}"]


def _name_after(manifest: str) -> str:
    """The same manifest names the same experiment, so that the same command continues it."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", Path(manifest).stem).lstrip("._-")[:96] or "batch"


def quoted(text: str) -> str:
    """A text as the value of an override, whatever is in it.

    See `override_text`.
    """
    return override_text(text)
