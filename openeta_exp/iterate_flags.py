"""The flags of `openeta --command iterate`, and the overrides that say the same."""

from __future__ import annotations

import argparse
import os

from openeta_exp.wire.override_text import override_text, override_texts

_STRATEGY = {
    "canary-attempts": "fewest episodes of the canary (2)",
    "held-out-attempts": "fewest held-out pairs before a promotion (20)",
    "held-out-success-rate": "success rate a candidate must show, if one is asked for",
    "held-out-tasks": "fewest tasks the held-out pairs are of (2)",
}
_ITERATE = (
    "train_manifest",
    "validation_manifest",
    "canary_manifest",
    "rounds",
    "publish_grasp_strategies",
    *(f"strategy_min_{name.replace('-', '_')}" for name in _STRATEGY),
)


def add_iterate_flags(parser: argparse.ArgumentParser) -> None:
    """The flags that only `--command iterate` has. Unset ones are None."""
    group = parser.add_argument_group("--command iterate")
    group.add_argument("--train-manifest", help="episodes that propose")
    group.add_argument("--validation-manifest", help="held-out episodes that only the gate sees")
    group.add_argument(
        "--canary-manifest",
        help="the cheap first comparison (tasks of the train manifest at seeds nobody else uses)",
    )
    group.add_argument("--rounds", help="generations (1)")
    group.add_argument(
        "--publish-grasp-strategies",
        action=argparse.BooleanOptionalAction,
        help="share what the last gate promotes (yes)",
    )
    for name, what in _STRATEGY.items():
        group.add_argument(f"--strategy-min-{name}", help=what)


def misplaced(flags: argparse.Namespace) -> list[str]:
    """What is wrong where the command is another one."""
    return [
        f"--{name.replace('_', '-')}: belongs to --command iterate"
        for name in _ITERATE
        if getattr(flags, name) is not None
    ]


def iterate_problems(flags: argparse.Namespace) -> list[str]:
    """Why this cannot be carried out, one sentence each."""
    problems = [
        f"--{name}: is missing; name a JSON or YAML file of episodes"
        for name in ("train-manifest", "validation-manifest")
        if getattr(flags, name.replace("-", "_")) is None
    ]
    if flags.manifest is not None:
        problems.append(
            "--manifest: is not for --command iterate; use --train-manifest and "
            "--validation-manifest"
        )
    if flags.approvement != "reviewed_autonomy":
        problems.append(
            f"--approvement {flags.approvement}: --command iterate runs unattended and needs "
            "reviewed_autonomy; `python -m openeta_exp command=iterate` takes any profile"
        )
    if flags.on_need_human not in (None, "fail"):
        problems.append(
            f"--on-need-human {flags.on_need_human}: nobody answers --command iterate; use fail"
        )
    return problems


def iterate_overrides(flags: argparse.Namespace) -> list[str]:
    """Manifests, generations, and what the gate asks for."""
    overrides = [f"lineage.generations={flags.rounds or 1}"]
    if os.environ.get("OPENETA_LLM_API_BASE"):
        overrides.append("author=model")
    for section, path in (
        ("manifest", flags.train_manifest),
        ("held_out", flags.validation_manifest),
        ("canary", flags.canary_manifest),
    ):
        if path is not None:
            overrides.append(f"{section}.path={override_text(path)}")
    if flags.episode_id:
        overrides.append(f"held_out.select={override_texts(flags.episode_id)}")
    if flags.publish_grasp_strategies is not None:
        publish = str(flags.publish_grasp_strategies).lower()
        overrides.append(f"publish_grasp_strategies={publish}")
    return [*overrides, *_gate(flags)]


def _gate(flags: argparse.Namespace) -> list[str]:
    """`--strategy-min-...` in the words of the chosen gate."""
    chosen = [each for each in flags.overrides if each.startswith("gate=")]
    original = bool(chosen) and chosen[-1] == "gate=no_regression"
    attempts, pairs = flags.strategy_min_canary_attempts, flags.strategy_min_held_out_attempts
    rate, tasks = flags.strategy_min_held_out_success_rate, flags.strategy_min_held_out_tasks
    if original:
        fields = {
            "lineage.canary_episodes": attempts,
            "gate.strategy.min_canary_attempts": attempts,
            "gate.strategy.min_held_out_attempts": pairs,
            "gate.strategy.min_success_rate": rate,
            "gate.strategy.min_tasks": tasks,
        }
    else:
        fields = {
            "lineage.canary_episodes": attempts,
            "gate.n_min": pairs,
            "gate.floor.rate": rate,
            # As the original has it: the rate that was observed.
            "gate.floor.rule": None if rate is None else "point",
            "gate.min_tasks": tasks,
        }
    return [f"{field}={value}" for field, value in fields.items() if value is not None]
