"""The embedded simulators as vla-eval adapters, so that policies run on what planners run on."""
