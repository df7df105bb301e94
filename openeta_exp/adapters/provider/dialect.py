"""Which optional fields an endpoint accepts: some models refuse what others require."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

_REFUSAL = re.compile(
    r"unsupported|not support|not permitted|not allowed|unrecogni[sz]ed|unknown|extra inputs|"
    r"unexpected",
    re.IGNORECASE,
)
_BAD_REQUEST = frozenset({400, 422})
_OLD_LIMIT, _NEW_LIMIT = "max_tokens", "max_completion_tokens"
_OPTIONAL = ("temperature", "response_format")


@dataclass(frozen=True, slots=True)
class Dialect:
    """How to word a request.

    Attributes:
        max_tokens_field: Name of the output limit.
        omit: Fields that are left out because the endpoint refuses them.
    """

    max_tokens_field: str = _OLD_LIMIT
    omit: frozenset[str] = frozenset()

    def after_refusal(self, status: int, *, parameter: str, text: str) -> Dialect | None:
        """The dialect to try next; None if the refusal is not about a field that can change.

        Args:
            parameter: The field the error names, empty if none.
            text: Message and code of the error.
        """
        if status not in _BAD_REQUEST or not _REFUSAL.search(text):
            return None
        for field in _OPTIONAL:
            if self._is_about(field, parameter, text) and field not in self.omit:
                return replace(self, omit=self.omit | {field})
        if self.max_tokens_field == _OLD_LIMIT and self._is_about(_OLD_LIMIT, parameter, text):
            return replace(self, max_tokens_field=_NEW_LIMIT)
        return None

    def joined(self, other: Dialect) -> Dialect:
        """What both have learned, so that requests in flight do not unlearn each other's."""
        newer = _NEW_LIMIT in (self.max_tokens_field, other.max_tokens_field)
        return Dialect(_NEW_LIMIT if newer else _OLD_LIMIT, self.omit | other.omit)

    @staticmethod
    def _is_about(field: str, parameter: str, text: str) -> bool:
        if parameter:
            return parameter.split(".")[0] == field
        return re.search(rf"\b{field}\b", text) is not None
