"""The part of vla-eval's interface that adapters and model servers touch, for where it is absent.

`provide()` registers these modules under `vla_eval.*`, unless that package is installed: an
adapter's class must be a subclass of the class its user imports.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType

_MODULES = {
    "vla_eval.types": "types",
    "vla_eval.specs": "specs",
    "vla_eval.recording": "recording",
    "vla_eval.benchmarks.base": "benchmarks",
    "vla_eval.model_servers.base": "model_servers",
    "vla_eval.model_servers.predict": "model_servers",
}


def provide() -> str:
    """Make `vla_eval` importable and say which one it is: its version, or `stand-in`."""
    package = sys.modules.get("vla_eval")
    if package is None and importlib.util.find_spec("vla_eval") is None:
        _register()
        return "stand-in"
    if package is not None and hasattr(package, "__openeta_stand_in__"):
        return "stand-in"
    version = getattr(importlib.import_module("vla_eval"), "__version__", None)
    return str(version or "installed")


def _register() -> None:
    for name in ("vla_eval", "vla_eval.benchmarks", "vla_eval.model_servers"):
        package = ModuleType(name, "Stand-in for a package that is not installed.")
        package.__path__ = []
        sys.modules[name] = package
    sys.modules["vla_eval"].__dict__["__openeta_stand_in__"] = True
    for name, ours in _MODULES.items():
        sys.modules[name] = importlib.import_module(f"{__name__}.{ours}")
    for name, module in list(sys.modules.items()):
        parent, _, child = name.rpartition(".")
        if parent.startswith("vla_eval") and parent in sys.modules:
            setattr(sys.modules[parent], child, module)
