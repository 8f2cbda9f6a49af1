"""Writes training_arguments.json: the fields of transformers.TrainingArguments with their defaults, and the public
methods and events of transformers.Trainer and TrainerCallback. Run with the transformers version that the page
docs/training-arguments.md names.
"""

import dataclasses
import inspect
import json
import os

import transformers
from transformers import Trainer, TrainerCallback, TrainingArguments


def plain(field):
    value = field.default
    if value is dataclasses.MISSING:
        value = field.default_factory() if field.default_factory is not dataclasses.MISSING else None
    value = getattr(value, "value", value)
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


out = {
    "transformers": transformers.__version__,
    "arguments": {f.name: plain(f) for f in dataclasses.fields(TrainingArguments)},
    "trainer_methods": [n for n, _ in inspect.getmembers(Trainer, inspect.isfunction) if not n.startswith("_")],
    "callback_events": [n for n, _ in inspect.getmembers(TrainerCallback, inspect.isfunction) if n.startswith("on_")],
}
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "training_arguments.json"), "w") as f:
    json.dump(out, f, indent=1)
    f.write("\n")
