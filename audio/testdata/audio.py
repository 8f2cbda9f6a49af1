"""Golden values from torchaudio.functional.resample and transformers' WhisperFeatureExtractor: python audio.py writes
audio.safetensors and audio.json beside it.

Needs torchaudio 2.11.0, torch 2.11.0 and transformers 5.17.0.
"""

import hashlib
import json
import pathlib
import sys

here = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(here.parents[1] / "scripts/golden"))
import pins  # noqa: E402, F401

import torch
import torchaudio
import transformers
from goldenfile import save_file
from transformers import WhisperFeatureExtractor

torch.set_num_threads(1)
RATES = [(8000, 16000), (11025, 16000), (22050, 16000), (44100, 16000), (48000, 16000), (16000, 8000), (96000, 44100)]
SETTINGS = [
    dict(chunk_length=1),
    dict(chunk_length=1, feature_size=128),
    dict(chunk_length=2, feature_size=20, sampling_rate=8000, hop_length=100, n_fft=200, padding_value=0.01),
    dict(chunk_length=1, feature_size=10, hop_length=320, dither=0.001),
    dict(chunk_length=1, feature_size=12, hop_length=300, n_fft=512),
    dict(),
]
tensors, out = {}, {"rates": RATES, "features": []}


def sha(t):
    return hashlib.sha256(t.contiguous().numpy().tobytes()).hexdigest()[:16]


def sound(n, seed):
    noise = torch.randn(n, generator=torch.Generator().manual_seed(seed))
    return (0.1 * noise + 0.5 * torch.sin(torch.arange(n) * 0.05)).clamp(-1, 1)


for i, (a, b) in enumerate(RATES):
    given = sound(1501 + 37 * i, i)
    tensors[f"sound.{i}"] = given
    tensors[f"resampled.{i}"] = torchaudio.functional.resample(given, a, b)
tensors["speech"] = sound(12345, 7)
for i, settings in enumerate(SETTINGS):
    extractor = WhisperFeatureExtractor(**settings)
    torch.manual_seed(3)
    features = extractor(
        tensors["speech"].numpy(), sampling_rate=extractor.sampling_rate, return_tensors="pt"
    ).input_features
    filters = torch.from_numpy(extractor.mel_filters).to(torch.float32)
    few = features[0, :, :8] if i != 2 else features[0, :, ::7]
    tensors[f"features.{i}"] = few.contiguous()
    out["features"].append(
        dict(
            config=json.loads(extractor.to_json_string()),
            filters=sha(filters),
            features=sha(features),
            shape=list(features.shape),
            every=7 if i == 2 else 1,
        )
    )
extractor = WhisperFeatureExtractor(chunk_length=1, feature_size=10)
tensors["long"] = sound(25000, 8)
tensors["features.long"] = extractor(
    tensors["long"].numpy(), sampling_rate=16000, truncation=False, padding="longest", return_tensors="pt"
).input_features[0]
save_file(
    {k: v.contiguous() for k, v in tensors.items()},
    str(here / "audio.safetensors"),
    metadata={
        "made with": f"torch {torch.__version__}, torchaudio {torchaudio.__version__}, "
        f"transformers {transformers.__version__}"
    },
)
(here / "audio.json").write_text(json.dumps(out, indent=0) + "\n")
