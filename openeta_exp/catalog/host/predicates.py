"""Predicates a catalog can name: `predicate(state, context)` says whether a goal holds.

`state` is what the environment reported: the fields of its result, `info`, `reward`, `done`,
`steps`, and what was recorded for the step. `context` has `args`, `task_id`, `instruction` and
`provider_ref`.
"""

from __future__ import annotations

from collections.abc import Mapping


def from_benchmark(state: Mapping[str, object], context: object = None) -> bool:
    """The environment's own verdict.

    Raises:
        KeyError: The environment gave none.
    """
    return bool(state["success"])


from_provider = from_benchmark
