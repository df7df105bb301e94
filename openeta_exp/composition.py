"""conf/ and overrides -> `ExperimentSettings`; with `cli`, the only modules that know Hydra.

Hydra stops at the first unknown field. Overrides are therefore given to it as additions
(`++field=value`), and the settings report every mistake at once, unknown fields included.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import yaml
from hydra import compose, initialize_config_dir
from hydra.conf import HydraConf
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from openeta_exp.errors import SettingsError
from openeta_exp.wire.explain import nearest
from openeta_exp.wire.override_text import override_text

if TYPE_CHECKING:
    from pydantic import JsonValue

    from openeta_exp.domain.identity import JsonObject
    from openeta_exp.settings.experiment import ExperimentSettings
    from openeta_exp.settings.parsing import Origin

VERSION_BASE = "1.3"
COMMAND_LINE = "command line"

_PLAIN_OVERRIDE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*)=")
_SWEEP = re.compile(r"(?:choice|glob|shuffle|sort)\(.*\)", re.DOTALL)
_NAMED_POLICY = re.compile(r"\+?policy@([^=]+)=(.*)", re.DOTALL)
_POLICY_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,95}")
_IMPORT_STRING = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_OPTIONS = re.compile(r"(?!(?i:null|true|false)$)[A-Za-z_][A-Za-z0-9_./,-]*")
COMPOSITION_ERRORS = (HydraException, OmegaConfBaseException, yaml.YAMLError)
"""What Hydra raises for input it cannot compose."""


def conf_dir() -> Path:
    """The shipped conf/: inside the installed package, or next to it in a checkout.

    Absolute, because Hydra resolves a relative path against the module under `python -m`.
    """
    package = Path(__file__).resolve().parent
    installed = package / "conf"
    return installed if installed.is_dir() else package.parent / "conf"


def as_additions(arguments: Sequence[str]) -> list[str]:
    """Command line arguments with every `field=value` as `++field=value`.

    Options of groups stay as they are; `experiment=NAME` is taken for `+experiment=NAME`, and
    `manifest.path=FILE` implies `manifest=file`, so that no row of another manifest stays (nor
    one of `canary` or `held_out`). Fields of the chosen command may leave `command.` out.

    Raises:
        SettingsError: If what is given for a group cannot be the name of an option.
    """
    groups = {each.name for each in conf_dir().iterdir() if each.is_dir()}
    chosen = any(each.startswith("manifest=") for each in arguments)
    rollback = "command=rollback" in arguments
    command = _command_fields(arguments)
    catalog = any(each.lstrip("+").startswith("catalog=") for each in arguments)
    additions = []
    for each in (_of_command(argument, command) for argument in _with_policies(arguments)):
        if each.startswith("catalog.") and not catalog:
            additions.append("+catalog=files")
            catalog = True
        if each.startswith("manifest.path=") and not chosen:
            additions.append("manifest=file")
        elif each.startswith(("canary.path=", "held_out.path=")):
            additions.append(f"++{each.partition('.')[0]}.episodes=null")
        if rollback and each.startswith(("strategy=", "reason=")):
            additions.append(f"++command.{each}")
        else:
            additions.append(_as_addition(each, groups))
    return additions


def _command_fields(arguments: Sequence[str]) -> Mapping[str, object]:
    """Fields of the chosen command that are not fields of the configuration, with defaults."""
    chosen = [each.partition("=")[2] for each in arguments if each.startswith("command=")]
    file = conf_dir() / "command" / f"{chosen[-1] if chosen else 'run'}.yaml"
    if not _OPTIONS.fullmatch(file.stem) or not file.is_file():
        return {}
    fields = yaml.safe_load(file.read_text(encoding="utf-8"))
    root = yaml.safe_load((conf_dir() / "config.yaml").read_text(encoding="utf-8"))
    return {name: value for name, value in fields.items() if name not in {*root, "kind"}}


def _of_command(argument: str, fields: Mapping[str, object]) -> str:
    """`answer=Pick it` as `command.answer="Pick it"`, if the command has such a field."""
    match = _PLAIN_OVERRIDE.match(argument)
    if match is None:
        return argument
    name, value = match[1].removeprefix("command."), argument[match.end() :]
    if name not in fields:
        return argument
    # What a person writes is a text, whatever Hydra could read in it.
    is_text = fields[name] in ("", "???") or (name == "answer" and value != "null")
    if is_text and not value.startswith(('"', "'")):
        value = override_text(value)
    return f"command.{name}={value}"


def _as_addition(argument: str, groups: set[str]) -> str:
    match = _PLAIN_OVERRIDE.match(argument)
    if match is None or match[1].startswith("hydra."):
        return argument
    name, value = match[1], argument[match.end() :]
    if name not in groups:
        return f"++{argument}"
    if not (_OPTIONS.fullmatch(value) or _SWEEP.fullmatch(value)):
        raise SettingsError(
            f"{COMMAND_LINE}: {name} = {value!r}: is a group; choose one of {_listed(name)}, "
            f"or set one of its fields with {name}.FIELD=VALUE"
        )
    if name == "policy":
        raise SettingsError(
            f"{COMMAND_LINE}: policy = {value!r}: has no name; write policy@a={value}"
        )
    return f"+{argument}" if name in ("experiment", "catalog") else argument


def _listed(group: str) -> str:
    return ", ".join(sorted(each.stem for each in (conf_dir() / group).glob("*.yaml")))


def _with_policies(arguments: Sequence[str]) -> Iterator[str]:
    """Arguments with every policy as Hydra takes it, and the fields of policies at their place."""
    names = {match[1] for each in arguments if (match := _NAMED_POLICY.fullmatch(each)) is not None}
    for name in names:
        if not _POLICY_NAME.fullmatch(name):
            raise SettingsError(
                f"{COMMAND_LINE}: policy@{name}: cannot name a policy; use letters, digits and _"
            )
        if name in _taken_names():
            raise SettingsError(
                f"{COMMAND_LINE}: policy@{name}: the configuration has a {name} already; choose "
                "another name"
            )
    for each in arguments:
        match = _NAMED_POLICY.fullmatch(each)
        if match is not None:
            yield from _policy(match[1], match[2])
        elif each.lstrip("+").partition(".")[0] in names:
            yield f"policies.{each.lstrip('+')}"
        else:
            yield each


def _taken_names() -> set[str]:
    root = yaml.safe_load((conf_dir() / "config.yaml").read_text(encoding="utf-8"))
    return {*root, *(each.name for each in conf_dir().iterdir()), "canary", "held_out", "policies"}


def _policy(name: str, value: str) -> Iterator[str]:
    plain = value.strip("'\"")
    if plain.startswith(("ws://", "wss://")):
        yield f"+policy@policies.{name}=vla_eval"
        yield f"policies.{name}.url={override_text(plain)}"
    elif _IMPORT_STRING.fullmatch(plain):
        yield f"+policy@policies.{name}=callable"
        yield f"policies.{name}.target={override_text(plain)}"
    elif _OPTIONS.fullmatch(value) or _SWEEP.fullmatch(value):
        yield f"+policy@policies.{name}={value}"
    else:
        raise SettingsError(
            f"{COMMAND_LINE}: policy@{name} = {value!r}: choose one of {_listed('policy')}, or "
            "write an import string such as my_module:Policy, or a ws:// address"
        )


def compose_settings(overrides: Sequence[str]) -> ExperimentSettings:
    """Compose and check settings without Hydra's command line.

    Raises:
        SettingsError: With one sentence per mistake.
    """
    additions = as_additions(overrides)
    try:
        with initialize_config_dir(version_base=VERSION_BASE, config_dir=str(conf_dir())):
            config = compose("config", additions, return_hydra_config=True)
    except COMPOSITION_ERRORS as error:
        raise composition_error(error, additions) from error
    return load_composed(config, overrides=additions)


def load_composed(config: DictConfig, *, overrides: Sequence[str]) -> ExperimentSettings:
    """Check a configuration that still has Hydra's own section.

    Raises:
        SettingsError: With one sentence per mistake.
    """
    origin = _origin(cast(HydraConf, config.hydra), overrides=overrides)
    with open_dict(config):
        del config["hydra"]
    return load_settings(config, origin=origin)


def load_job_settings(config: DictConfig) -> ExperimentSettings:
    """Check what `hydra.main` composed.

    Raises:
        SettingsError: With one sentence per mistake.
    """
    node = HydraConfig.get()
    # Unresolved, because an override may hold an interpolation that fails.
    typed = OmegaConf.to_container(cast(DictConfig, node.overrides), resolve=False)
    overrides = typed.get("task", []) if isinstance(typed, dict) else []
    return load_settings(config, origin=_origin(node, overrides=overrides))


def load_settings(config: DictConfig, *, origin: Origin) -> ExperimentSettings:
    """The one place where Hydra's configuration becomes typed.

    Raises:
        SettingsError: With one sentence per mistake.
    """
    # `--help` and `--cfg` compose without checking, and need not wait for pydantic.
    from openeta_exp.settings.parsing import parse_settings

    try:
        fields = OmegaConf.to_container(config, resolve=True)
    except OmegaConfBaseException as error:
        raise composition_error(error, ()) from error
    if not isinstance(fields, dict):
        raise SettingsError("the configuration must be a mapping of fields to values")
    return parse_settings(_without_gaps(fields), origin=origin)


def _without_gaps(fields: Mapping[Any, object]) -> JsonObject:
    """Hydra's `???` (to be filled in) is an absent value like any other."""

    def plain(value: object) -> JsonValue:
        match value:
            case dict():
                return {str(key): plain(inner) for key, inner in value.items()}
            case list():
                return [plain(inner) for inner in value]
            case None | bool() | int() | float() | str():
                return None if value == "???" else value
            case _:
                return str(value)

    return {str(key): plain(value) for key, value in fields.items()}


def composition_error(error: Exception, arguments: Sequence[str]) -> SettingsError:
    """Hydra's error as one sentence: where, what, and what to write instead."""
    match error:
        case OverrideParseException(override=override):
            return SettingsError(
                f"{COMMAND_LINE}: {override.removeprefix('++')}: cannot be read as FIELD=VALUE; "
                "put a text with special characters in quotes: 'FIELD=\"a, b\"'"
            )
        case MissingConfigException(missing_cfg_file=str(file), options=options):
            group, _, option = file.rpartition("/")
            typed = any(
                each.lstrip("+").startswith((f"{group}=", f"{group}@")) for each in arguments
            )
            place = COMMAND_LINE if typed or not group else "conf"
            also = ", or MODULE:NAME or ws://HOST:PORT" if group == "policy" else ""
            return SettingsError(
                f"{place}: {group or 'config'} = {option!r}: no such option; "
                f"{nearest(option, options or ())}{also}"
            )
        case OmegaConfBaseException(full_key=str(key), msg=str(message)) if key:
            reason = message.rpartition("resolving interpolation: ")[2]
            return SettingsError(f"conf: {key}: {_one_line(reason)}")
        case _:
            text = _one_line(f"{error}\n{error.__cause__ or ''}").replace("++", "")
            return SettingsError(f"{COMMAND_LINE}: {text}")


def _one_line(text: str) -> str:
    lines = (line.strip() for line in text.splitlines())
    noise = ("full_key:", "object_type=", "reference_type=")
    return " ".join(line for line in lines if line and not line.startswith(noise))


def _origin(hydra: HydraConf, *, overrides: Sequence[str]) -> Origin:
    directories = [
        Path(source.path)
        for source in hydra.runtime.config_sources
        if source.schema == "file" and source.path
    ]
    return ComposedOrigin(
        choices={str(group): str(option) for group, option in hydra.runtime.choices.items()},
        overridden=tuple(override_path(each) for each in overrides),
        directories=tuple(directories),
    )


def override_path(override: str) -> tuple[str, ...]:
    """The field an override is about, part by part."""
    return tuple(override.lstrip("+~").partition("=")[0].split("."))


@dataclass(frozen=True, slots=True, kw_only=True)
class ComposedOrigin:
    """Finds the file that decided a field, in Hydra's order of precedence.

    Attributes:
        choices: Chosen option of every group.
        overridden: Paths given on the command line.
        directories: Where configuration files are looked for, first wins.
    """

    choices: Mapping[str, str]
    overridden: tuple[tuple[str, ...], ...]
    directories: tuple[Path, ...]

    def __call__(self, path: Sequence[str]) -> str:
        here = tuple(part.partition("[")[0] for part in path)
        if any(here[: len(each)] == each for each in self.overridden if each != here[:1]):
            return COMMAND_LINE
        if here in self.overridden and here[0] not in self.choices:
            return COMMAND_LINE
        for file, inner in self._candidates(here):
            if _states(file, inner):
                return self._name(file)
        if any(each[: len(here)] == here for each in self.overridden if each[:1] != each):
            return COMMAND_LINE  # A section that exists for what was given below it.
        group = self._group_file(here[0])
        return self._name(group or self._find("config") or conf_dir() / "config.yaml")

    def _candidates(self, path: tuple[str, ...]) -> Iterator[tuple[Path, tuple[str, ...]]]:
        """Files that may state the field, strongest first, with the field's path inside."""
        experiment = self._find(f"experiment/{self.choices.get('experiment', '')}")
        if experiment is not None:
            yield experiment, path
        root = self._find("config")
        if root is not None:
            yield root, path
        group = self._group_file(path[0])
        if group is not None:
            yield group, path[1:]
        inner, rest = self._inner_group(path)
        if inner is not None:
            yield inner, rest

    def _group_file(self, section: str) -> Path | None:
        """The option that a section was composed from: `group`, or `group@section`."""
        for choice, option in self.choices.items():
            group, _, package = choice.partition("@")
            if section == (package or group):
                return self._find(f"{group}/{option}")
        return None

    def _inner_group(self, path: tuple[str, ...]) -> tuple[Path | None, tuple[str, ...]]:
        """The option that was composed into a part of a section: `group@section.part`."""
        part = ".".join(path[:2])
        return (self._group_file(part) if len(path) > 1 else None), path[2:]

    def _find(self, name: str) -> Path | None:
        paths = (directory / f"{name}.yaml" for directory in self.directories)
        return next((each for each in paths if each.is_file()), None)

    def _name(self, file: Path) -> str:
        shipped = conf_dir()
        return f"conf/{file.relative_to(shipped)}" if file.is_relative_to(shipped) else str(file)


def _states(file: Path, path: Sequence[str]) -> bool:
    value: object = yaml.safe_load(file.read_text(encoding="utf-8"))
    for part in path:
        if not isinstance(value, dict):
            break
        if part not in value:
            return False
        value = value[part]
    return True
