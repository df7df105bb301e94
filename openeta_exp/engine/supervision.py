"""The gate before every world-mutating call, where no person and no model stands at it."""

from __future__ import annotations

from openeta_exp.domain.supervision import ActionContext, ApprovementProfile, Authorization


class RuntimeChecksGate:
    """Profile `standard`: the deterministic checks of runtime and simulator decide alone."""

    profile = ApprovementProfile.STANDARD

    async def authorize(self, context: ActionContext) -> Authorization:
        del context
        return Authorization(allowed=True, by="runtime")
