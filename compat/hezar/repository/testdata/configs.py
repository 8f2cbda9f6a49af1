"""Writes ../configs.yaml: the model_config.yaml of each kind of model that package repository knows, as Hezar 1.0.0
fills it in. Null is a setting without a default, which Hezar leaves out of a file.
"""

import dataclasses
import pathlib

import yaml
from hezar import models

kinds = [
    "CRNNImage2Text",
    *(
        family + task
        for task in ("TextClassification", "SequenceLabeling")
        for family in ("Bert", "Roberta", "DistilBert")
    ),
    "T5TextGeneration",
    "GPT2TextGeneration",
]
configs = {}
for kind in kinds:
    cls = getattr(models, kind + "Config")
    required = {
        f.name: None
        for f in dataclasses.fields(cls)
        if f.init and f.default is f.default_factory is dataclasses.MISSING
    }
    config = cls(**required).to_dict()
    configs[config["name"]] = {k: list(v) if isinstance(v, tuple) else v for k, v in config.items()}
for config in configs.values():
    for key, value in config.items():
        config[key] = str(value) if isinstance(value, str) else value
text = yaml.safe_dump(configs, sort_keys=False, allow_unicode=True)
(pathlib.Path(__file__).parent.parent / "configs.yaml").write_text(
    "# Written by testdata/configs.py from Hezar 1.0.0.\n" + text
)
