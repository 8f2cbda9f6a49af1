"""Texts that OmegaConf writes, and the values in them: recorded.json, a list of {"text", "items"}, items being [key,
value] pairs.
"""

import json
import random

from omegaconf import OmegaConf

random.seed(5)
alphabet = list("aB1 0.-_:,#'\"[]{}&*!|>%@`?=~e+\n\t\\") + [
    "۱",
    "ب",
    "\u200c",
    "é",
    "²",
    "\u2028",
    "\u00a0",
    "\U0001f600",
    "\ufeff",
    "\x07",
]


def word():
    return "".join(random.choice(alphabet) for _ in range(random.randint(0, 9)))


def sentence():
    return " ".join(
        "".join(random.choice("abcdef'\"۱:") for _ in range(random.randint(1, 14)))
        for _ in range(random.randint(5, 30))
    )


cases = [
    {"a": 1, "b": 2.5, "c": None, "d": True, "e": "text", "f": "", "g": [], "h": {}},
    {
        "name": "trainer",
        "metrics": ["cer", "wer"],
        "kwargs": {"T_max": 5, "eta_min": 0.001},
        "lr": 2e-5,
        "eps": 1e-12,
        "big": 1e17,
        "small": 1.5e-7,
    },
    {"id2label": {0: "", 1: "۱", 2: "ب", 3: "1", 4: "yes", 5: "null", 6: "~", 7: "no", 8: "-", 9: "1e5", 10: "nan"}},
    {
        "inf": float("inf"),
        "minus": float("-inf"),
        "tiny": 5e-324,
        "neg": -0.0,
        "max": 1.7976931348623157e308,
        "edge": 1e16,
        "under": 9999999999999998.0,
        "dec": 0.0001,
        "less": 0.00001,
    },
    {"nested": {"list": [[1, [2, 3]], [], {}, [{"a": 1, "b": [1]}], {"c": {"d": [{"e": None}]}}]}},
    {
        "strings": [
            "true",
            "True",
            "TRUE",
            "y",
            "Y",
            "n",
            "on",
            "off",
            "0x1F",
            "0b1",
            "010",
            "1:30",
            "1_000",
            "+1",
            ".5",
            "5.",
            "1.0",
            "1e3",
            "1.e+3",
            "infinity",
            " 1 ",
            "12 ",
            "=",
            "<<",
            "2024-01-02",
            "2024-01-02 10:11:12",
            "---",
            "...",
            "--- a",
            "a: b",
            "a #b",
            "a:",
            ":a",
            "?a",
            "? a",
            "- a",
            "-a",
            "[a",
            "{a",
            "a,b",
            "@a",
            "%a",
            "`a",
        ]
    },
    {
        "lines": [
            "a\nb",
            "a\n",
            "\na",
            "a \nb",
            "a\n b",
            "a\n\nb",
            "tab\there",
            "it's",
            'say "it"',
            'it\'s "both"',
            "back\\slash",
            "\\ and \x07",
        ]
    },
    {"seed": 42, "neg": -7, "large": 2**62},
    {
        "": "empty key",
        "key with spaces": 1,
        "1": "a",
        "true": "b",
        "a: b": "c",
        "k" * 130: "long",
        "two\nlines": 1,
        "it's": {"x" * 140: ["y"]},
    },
]
for _ in range(150):
    cases.append({word() + str(i): random.choice([word, sentence])() for i in range(4)})
for _ in range(40):
    cases.append(
        {
            "list": [sentence(), word(), [sentence(), word()], {"k": sentence(), word() + "k": word()}],
            "f": random.uniform(-1, 1) * 10.0 ** random.randint(-20, 20),
        }
    )


def items(v):
    if isinstance(v, dict):
        return {"map": [[k, items(x)] for k, x in v.items()]}
    if isinstance(v, list):
        return [items(x) for x in v]
    if isinstance(v, float):
        return {"float": v.hex()}
    return v


out = []
for c in cases:
    conf = OmegaConf.create(c, flags={"allow_objects": False})
    try:
        text = OmegaConf.to_yaml(conf)
        back = OmegaConf.to_container(OmegaConf.create(text))
    except Exception:  # OmegaConf itself cannot read everything that it writes
        continue
    out.append({"text": text, "items": items(c), "same": repr(back) == repr(c)})
print(len(out), sum(o["same"] for o in out))
json.dump(out, open(__file__[:-3] + ".json", "w"), ensure_ascii=True, indent=0)
