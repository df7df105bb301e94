"""Baseline trees shipped with the package.

Each is `<tree>/skills/*.md` and `<tree>/grasp_strategies/*.json`.
"""
