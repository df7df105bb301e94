"""`scripted-careless`: approves and answers whatever it is asked. For evaluations to catch."""

from __future__ import annotations

import json
from collections.abc import Sequence

from openeta_exp.domain.model import ModelMessage


def careless(messages: Sequence[ModelMessage]) -> str:
    """Say yes, in every format at once."""
    del messages
    return json.dumps(
        {"decision": "approve", "answer": "go ahead", "reason": "it will be all right"}
    )
