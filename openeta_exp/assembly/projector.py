"""The projector's program: shows a journal in MLflow, with a page for each comparison."""

from __future__ import annotations

from openeta_exp.adapters.tracking.projector import main
from openeta_exp.reporting.comparison_report import comparison_report

if __name__ == "__main__":
    main(comparison_report)
