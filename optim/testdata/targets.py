"""Writes targets.json: which modules match optim_target_modules, by check_target_module_exists of transformers 5.17,
and which are warned of.
"""

import json
import os
import re

from transformers.trainer_utils import check_target_module_exists

MODULES = {
    "": False,
    "embed": False,
    "layers": False,
    "layers.0": False,
    "layers.0.attn": False,
    "layers.0.attn.q": True,
    "layers.0.attn.q_norm": False,
    "layers.0.mlp.up": True,
    "layers.0.mlp.gate": True,
    "layers.10.attn.q": True,
    "layers.10.mlp.up": True,
    "head": True,
}
TARGETS = [
    "attn",
    "layers.0.attn.q",
    "head",
    r"layers\.\d+\.(attn|mlp)\..*",
    r".*\.(?!up)\w+",
    r"layers\.(\d)\1?.*",
    r".*attn.*",
    ".*",
    r"(?P<a>layers)\.10\.(?P<b>\w+)\.q",
    r"head\Z",
    "layers.0.attn",
    r"(?P<d>\d*)l.*",
    r"layers\.(?P<d>\d)(?P=d)?\.mlp\..*",
    "(",
    "attn)|(mlp",
    "[",
    r"a{2",
    "a**",
    "all-linear",
    "all_linear",
    ["attn"],
    ["attn", "mlp"],
    ["layers.0"],
    ["q"],
    [r"layers\.\d+\.mlp\..*"],
    ["head", r".*\.up"],
    [r"(?<=x).*"],
    [r".*(?<!\.q)\.\w*p"],
    ["embed"],
    ["nothing"],
    ["("],
    ["attn", "["],
]
out = []
for targets in TARGETS:
    case = {"targets": targets, "linear": [], "warned": [], "error": False}
    everything = isinstance(targets, str) and targets.replace("_", "-") == "all-linear"
    try:
        for name, linear in MODULES.items():
            found, is_regex = check_target_module_exists(targets, name, return_is_regex=True)
            if linear and (found or everything):
                case["linear"].append(name)
            if not linear and found and not is_regex:
                case["warned"].append(name)
    except re.error:
        case.update(linear=[], warned=[], error=True)
    out.append(case)
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "targets.json")
json.dump({"modules": [{"Name": n, "Linear": l} for n, l in MODULES.items()], "cases": out}, open(path, "w"), indent=1)
