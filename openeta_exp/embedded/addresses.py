"""What the embedded host is asked to serve, and where it then does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from openeta_exp.domain.record import Record

if TYPE_CHECKING:
    from openeta_exp.embedded.simulator.service import SimulatorOptions


class SimulatorRequest(Record):
    """How the embedded simulator runs."""

    max_processes: int
    quality: Literal["benchmark", "fast"]
    gl: Literal["auto", "egl", "osmesa"]
    call_timeout_s: float

    def to_service(self) -> SimulatorOptions:
        from openeta_exp.embedded.simulator.gl import Gl
        from openeta_exp.embedded.simulator.rendering_quality import Quality
        from openeta_exp.embedded.simulator.service import SimulatorOptions

        candidates = (Gl.EGL, Gl.OSMESA) if self.gl == "auto" else (Gl(self.gl),)
        return SimulatorOptions(
            max_envs=self.max_processes,
            quality=Quality(self.quality),
            gl_candidates=candidates,
            call_timeout_s=self.call_timeout_s,
        )


class HostOptions(Record):
    """One JSON line on the host's standard input."""

    simulator: SimulatorRequest | None
    """With it comes perception, which needs the simulator's frames."""
    models: bool
    faults: str = ""
    """Failures and delays of the models; see `embedded.models.faults`."""


class EmbeddedAddresses(Record):
    """One JSON line on the host's standard output. What was not asked for has no address."""

    pid: int
    simulator_url: str = ""
    perception_url: str = ""
    models_url: str = ""
