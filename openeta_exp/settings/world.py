"""Where episodes take place (`simulator=`) and what finds objects and grasps (`perception=`)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from openeta_exp.domain.record import Record
from openeta_exp.settings.addresses import HttpAddress

Pixels = Annotated[int, Field(ge=16, le=2048)]
Transport = Literal["auto", "streamable_http", "sse"]
"""`auto` tries streamable HTTP first, then SSE."""


class _Calls(Record):
    """What is asked of every environment, wherever it lives."""

    cameras: tuple[Annotated[str, Field(min_length=1)], ...] = ("agentview",)
    """Cameras of every observation, primary first; `[]` renders nothing at all."""
    image_width: Pixels = 256
    image_height: Pixels = 256
    call_timeout_s: float = Field(default=300.0, gt=0)
    """How long one tool call may take, creation and reset included."""
    close_timeout_s: float = Field(default=30.0, gt=0)


class EmbeddedSimulatorSettings(_Calls):
    """The simulator this package starts itself: LIBERO and the small tabletop."""

    kind: Literal["embedded"] = "embedded"
    quality: Literal["benchmark", "fast"] = "benchmark"
    """`benchmark` draws as the scene's authors ship it, `fast` without smoothing and shadows."""
    gl: Literal["auto", "egl", "osmesa"] = "auto"
    """OpenGL platform; `auto` takes the first that works."""
    max_processes: int | None = Field(default=None, ge=1)
    """Environment processes at most; null lets the machine's memory and cores decide."""


class McpSimulatorSettings(_Calls):
    """A running simulator server with the OpenETA tool contract."""

    kind: Literal["mcp"] = "mcp"
    url: HttpAddress
    transport: Transport = "auto"


SimulatorSettings = Annotated[
    EmbeddedSimulatorSettings | McpSimulatorSettings, Field(discriminator="kind")
]


class EmbeddedPerceptionSettings(Record):
    """Masks and grasps from the embedded simulator's own ground truth; stamped `embedded`."""

    kind: Literal["embedded"] = "embedded"


class McpPerceptionSettings(Record):
    """Running SAM3 and AnyGrasp servers."""

    kind: Literal["mcp"] = "mcp"
    sam3_url: HttpAddress | None = None
    anygrasp_url: HttpAddress | None = None
    transport: Transport = "auto"
    timeout_s: float = Field(default=600.0, gt=0)
    """How long one segmentation or grasp detection may take."""


class NoPerceptionSettings(Record):
    """The planner works from images alone."""

    kind: Literal["none"] = "none"


PerceptionSettings = Annotated[
    EmbeddedPerceptionSettings | McpPerceptionSettings | NoPerceptionSettings,
    Field(discriminator="kind"),
]
