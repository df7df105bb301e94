"""Where people look at runs (`tracking=`)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from openeta_exp.domain.record import Record
from openeta_exp.settings.addresses import ServerAddress


class MlflowTrackingSettings(Record):
    """Show runs in MLflow."""

    kind: Literal["mlflow"] = "mlflow"
    uri: ServerAddress | None = None
    """Tracking server; null keeps a database below the output root."""
    experiment_name: str | None = Field(default=None, min_length=1)
    """Name in MLflow; null means the experiment id."""
    drain_timeout_s: float = Field(default=60.0, ge=0)
    """How long the end of a run waits for MLflow."""


class NoTrackingSettings(Record):
    """The journal only; `command=track` can project it later."""

    kind: Literal["none"] = "none"


TrackingSettings = Annotated[
    MlflowTrackingSettings | NoTrackingSettings, Field(discriminator="kind")
]
