"""Baseline trees shipped with the package: `<tree>/skills/*.md`, `<tree>/grasp_strategies/*.json`."""
