"""Golden values from transformers' Wav2Vec2FeatureExtractor: python waveform.py writes waveform.json beside it.

Its arithmetic is numpy's in float32, which does not depend on the CPU.
"""

import hashlib
import json
import pathlib

import numpy as np
import transformers
from transformers import Wav2Vec2FeatureExtractor

here = pathlib.Path(__file__).resolve().parent


def sound(n):
    """Numbers that are exact in every language"""
    return np.array([(i * 7919 % 1009 - 300) / 1024 for i in range(n)], dtype=np.float32)


out = dict(made_with=f"transformers {transformers.__version__}, numpy {np.__version__}", sounds=[], configs=[])
for settings in [
    {},
    dict(do_normalize=False, sampling_rate=8000),
    dict(return_attention_mask=True, padding_value=-1.0),
]:
    e = Wav2Vec2FeatureExtractor(**settings)
    out["configs"].append(e.to_dict())
    if settings.get("padding_value"):
        continue
    for n in [1, 5, 8, 100, 128, 129, 137, 1000, 4001]:
        values = e(sound(n), sampling_rate=e.sampling_rate).input_values[0]
        out["sounds"].append(
            dict(
                config=len(out["configs"]) - 1,
                samples=n,
                first=[float(v).hex() for v in values[:3]],
                sum=hashlib.sha256(values.tobytes()).hexdigest()[:16],
            )
        )
(here / "waveform.json").write_text(json.dumps(out, indent=0) + "\n")
