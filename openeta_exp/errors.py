"""Every exception this package raises on purpose.

    OpenEtaError
    ├── UserError                     the user's input; exit code 2, never a traceback
    │   ├── SettingsError             conf/ or an override
    │   ├── ManifestError             a manifest, a selection, two arms that do not match
    │   ├── ArtifactError             a skill, a grasp strategy, a baseline tree
    │   └── CatalogError              scenes, tasks, scenarios, adapters
    ├── SpendingCapError              a cap of `money` would be exceeded; ends the command at once
    └── InfrastructureError           something outside broke; costs one episode; exit code 3
        ├── ProviderError             the model endpoint
        │   ├── ProviderQueueTimeout  no free slot in time; nothing was sent
        │   ├── ProviderQuotaError    the account is exhausted; retrying is hopeless
        │   └── ProviderReplyError    a model's answer without use: empty, cut by length
        ├── SimulatorError            a simulator or its connection
        ├── PerceptionError           a perception service or its connection
        ├── PolicyError               a policy server
        └── StoreError                the journal or the disk below it

Anything else that escapes is a bug in this package: exit code 1, with a traceback.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


class OpenEtaError(Exception):
    """Root of the tree."""


class UserError(OpenEtaError):
    """The input cannot be used. Carries every mistake that was found, not only the first.

    Attributes:
        problems: One sentence each: file, field, value and fix.
    """

    def __init__(self, problems: str | Sequence[str]) -> None:
        self.problems = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__("\n".join(self.problems))


class SettingsError(UserError):
    """The configuration does not describe a runnable experiment."""


class ManifestError(UserError):
    """A manifest or a selection of its episodes cannot be run."""


class ArtifactError(UserError):
    """A skill, a grasp strategy or a tree of them is malformed or was changed."""


class CatalogError(UserError):
    """A catalog or an adapter cannot be used."""


class SpendingCapError(OpenEtaError):
    """A model call was not made, because a cap of `money` might have been exceeded by it.

    Nothing is wrong with the episode that wanted it: like Ctrl-C it ends the command, and the
    same command goes on once the cap is higher.
    """


class InfrastructureError(OpenEtaError):
    """Something outside this package broke. Costs one episode, never the batch.

    Attributes:
        code: Stable snake_case identifier, part of the result file.
    """

    default_code = "infrastructure_error"

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        self.code = code or self.default_code


@dataclass(frozen=True, slots=True, kw_only=True)
class ChargedTokens:
    """What answers were charged with, as an error carries it: the counts of a `TokenUsage`.

    Attributes:
        sources: How many requests were counted by each `UsageSource`.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    sources: Mapping[str, int] = field(default_factory=dict)


class ProviderError(InfrastructureError):
    """The model endpoint could not answer within its retries.

    Attributes:
        charged: For answers that were charged all the same: useless ones before this.
    """

    default_code = "provider_unavailable"

    def __init__(
        self, message: str, *, code: str | None = None, charged: ChargedTokens | None = None
    ) -> None:
        super().__init__(message, code=code)
        self.charged = charged or ChargedTokens()

    @property
    def tokens(self) -> int:
        """Of all that was charged."""
        return self.charged.total_tokens


class ProviderQueueTimeout(ProviderError):  # noqa: N818 - the name of the seed's code
    """No provider slot came free in time; no request was sent."""

    default_code = "provider_queue_timeout"


class ProviderQuotaError(ProviderError):
    """The account behind the key is exhausted. Never retried."""

    default_code = "provider_quota_exhausted"


class ProviderReplyError(ProviderError):
    """The model answered, but with nothing usable: empty, or cut by length.

    What comes in place of a model's answer is no such error: it says nothing about the model.
    """

    default_code = "provider_reply_unusable"


class SimulatorError(InfrastructureError):
    """A simulator call did not complete.

    Attributes:
        tool: The tool that was called, if one was.
        outcome_unknown: True if a world-changing call may have run all the same.
    """

    default_code = "simulator_mcp_call_failed"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        tool: str | None = None,
        outcome_unknown: bool = False,
    ) -> None:
        super().__init__(message, code=code)
        self.tool = tool
        self.outcome_unknown = outcome_unknown


class PerceptionError(InfrastructureError):
    """A perception service could not be reached or broke while answering."""

    default_code = "perception_mcp_call_failed"


class PolicyError(InfrastructureError):
    """A policy server could not be reached or answered out of order."""

    default_code = "policy_server_failed"


class StoreError(InfrastructureError):
    """The journal or a result file could not be written."""

    default_code = "store_failed"
