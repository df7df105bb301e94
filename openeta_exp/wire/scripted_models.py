"""Names of the models this package serves itself, as they stand in settings and requests."""

from __future__ import annotations

import difflib

from openeta_exp.wire.model_faults import parse_faults

SCRIPTED_MODELS = (
    "scripted-planner",
    "scripted-fixed-sequence",
    "scripted-author",
    "scripted-reviewer",
    "scripted-action-reviewer",
    "scripted-careless",
    "scripted-guidance",
    "scripted-skill-author",
    "scripted-skill-reviewer",
)
FAULTS_SEPARATOR = "+"
"""A faults line may follow the model name: `scripted-planner+latency=0.2,server_error@1`."""


def check_scripted_model(text: str) -> str:
    """The same text. Raises: ValueError: There is no such model, or its faults cannot be read."""
    name, _, faults = text.partition(FAULTS_SEPARATOR)
    if name not in SCRIPTED_MODELS:
        near = difflib.get_close_matches(name, SCRIPTED_MODELS, n=1)
        meant = f"did you mean {near[0]}? " if near else ""
        raise ValueError(
            f"is no embedded model; {meant}use one of {', '.join(SCRIPTED_MODELS)}, or "
            "provider=openai for a model of your own"
        )
    parse_faults(faults)
    return text
