"""What PyMarlin 0.3.6 needs with today's Python and PyTorch, none of which touches its loop: a stub of
azureml.core.run, hashable default dataclasses, and torch.load with weights_only=False. The scripts beside this one
import it before PyMarlin; by itself it does nothing.
"""

import dataclasses
import importlib.util
import logging
import sys
import types

import torch

for name in ("azureml", "azureml.core", "azureml.core.run"):
    sys.modules.setdefault(name, types.ModuleType(name))


class Run:
    @staticmethod
    def get_context(*a, **k):
        raise RuntimeError("no Azure ML context")


sys.modules["azureml.core.run"].Run = Run
plain = dataclasses._get_field


def get_field(cls, a_name, a_type, default_kw_only):
    d = getattr(cls, a_name, None)
    if dataclasses.is_dataclass(d) and not isinstance(d, type) and type(d).__hash__ is None:
        type(d).__hash__ = object.__hash__
    return plain(cls, a_name, a_type, default_kw_only)


dataclasses._get_field = get_field

if importlib.util.find_spec("pymarlin") is None:
    print("pymarlin==0.3.6 is not installed (pip install --no-deps pymarlin==0.3.6); its recordings stay as they are")
    sys.exit(1 if sys.argv[1:] else 0)

from pymarlin.utils.checkpointer import checkpoint_utils as ck  # noqa: E402

logging.disable(logging.CRITICAL)
load = torch.load
ck.torch = types.SimpleNamespace(
    save=torch.save, device=torch.device, load=lambda *a, **k: load(*a, weights_only=False, **k)
)
