"""What tracker and projector, two processes, say to each other: one JSON record per line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from openeta_exp.domain.event import Event
from openeta_exp.domain.record import Record


class MlflowTarget(Record):
    """Where runs are shown.

    Attributes:
        uri: `sqlite:///...`, `http(s)://...`, or whatever else MLflow takes.
        artifact_root: Folder for artifacts of a new experiment; None leaves it to the server.
    """

    uri: str = Field(min_length=1)
    artifact_root: Path | None
    experiment_name: str = Field(min_length=1)

    @classmethod
    def below(cls, output_root: Path, *, experiment_name: str) -> MlflowTarget:
        """The store that needs no server: a database and a folder under the output root."""
        folder = output_root.resolve() / "mlflow"
        return cls(
            uri=f"sqlite:///{folder / 'mlflow.db'}",
            artifact_root=folder / "artifacts",
            experiment_name=experiment_name,
        )


class Fact(Record):
    """One event of the journal on its way to be shown."""

    kind: Literal["fact"] = "fact"
    seq: int
    event: Event


class Farewell(Record):
    """Nothing comes after this: show what there is, and end."""

    kind: Literal["farewell"] = "farewell"


ToProjector = Annotated[Fact | Farewell, Field(discriminator="kind")]


class Shown(Record):
    """Everything up to `seq` is in MLflow.

    Attributes:
        place: Link to the latest run, or the store and its id where no server has a page for it.
        compare: Page with the generations of a lineage side by side; from `#` on where no server
            is known; None if there are not two.
    """

    kind: Literal["shown"] = "shown"
    seq: int
    place: str
    compare: str | None = None


class Trouble(Record):
    """MLflow does not take it; it is tried again."""

    kind: Literal["trouble"] = "trouble"
    message: str


FromProjector = Annotated[Shown | Trouble, Field(discriminator="kind")]
