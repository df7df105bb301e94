"""Which environments the embedded simulator has, before it is started."""

from __future__ import annotations

from collections.abc import Iterator

from openeta_exp.domain.manifest import Manifest
from openeta_exp.embedded.simulator.env_ids import LiberoId, TabletopId
from openeta_exp.embedded.simulator.libero_suites import libero_tasks
from openeta_exp.embedded.simulator.tabletop.tasks import TASKS
from openeta_exp.errors import ManifestError
from openeta_exp.settings.experiment import ExperimentSettings
from openeta_exp.settings.manifest import ManifestSettings
from openeta_exp.settings.world import EmbeddedSimulatorSettings
from openeta_exp.wire.explain import nearest, show

_TABLETOP, _LIBERO = "openeta/tabletop_", "openeta/libero_"


def read_known(settings: ExperimentSettings) -> Manifest:
    """The selected episodes of `manifest`.

    Raises:
        ManifestError: With every mistake of it, or every environment that does not exist.
    """
    manifest = settings.read_manifest()
    require_known(settings, manifest, source=source_of(settings.manifest, "manifest"))
    return manifest


def source_of(section: ManifestSettings, field: str) -> str:
    """Where rows are written, as a message names it."""
    return f"{field}.episodes" if section.path is None else f"{field}.path = {section.path}"


def require_known(settings: ExperimentSettings, manifest: Manifest, *, source: str) -> None:
    """Refuse env ids that are spelt like ours and are none of them.

    What another simulator has is not known here, and neither is LIBERO's where it is not installed.

    Raises:
        ManifestError: With a sentence for each of them.
    """
    if not isinstance(settings.simulator, EmbeddedSimulatorSettings):
        return
    problems = list(_unknown(manifest, source=source))
    if problems:
        raise ManifestError(problems)


def _unknown(manifest: Manifest, *, source: str) -> Iterator[str]:
    wanted = {spec.env_id: spec.episode_id for spec in reversed(manifest.episodes)}
    families = {_TABLETOP: {str(TabletopId(slug)) for slug in TASKS}}
    if any(env_id.startswith(_LIBERO) for env_id in wanted):
        libero = {str(LiberoId(task.suite, task.task_index)) for task in libero_tasks()}
        families |= {_LIBERO: libero} if libero else {}
    for env_id, episode_id in reversed(wanted.items()):
        for prefix, known in families.items():
            if env_id.startswith(prefix) and env_id not in known:
                yield (
                    f"{source}: row {episode_id}: env_id = {show(env_id)}: the embedded simulator "
                    f"has no such environment; {nearest(env_id, known)}"
                )
