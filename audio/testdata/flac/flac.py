"""FLAC files with what libsndfile reads of them: python flac.py writes them and flac.json. Needs soundfile 0.14.0."""

import hashlib
import json
import pathlib

import numpy as np
import soundfile

here = pathlib.Path(__file__).resolve().parent
draw = np.random.default_rng(7)


def sound(samples, channels):
    """A tone with noise, which differs a little between channels"""
    t = np.arange(samples)[:, None] / 16000
    tone = 0.4 * np.sin(2 * np.pi * (220 + 3 * np.arange(channels)) * t)
    return tone + 0.02 * draw.standard_normal((samples, channels))


cases = []
for name, rate, samples, channels, subtype in [
    ("mono16", 16000, 5000, 1, "PCM_16"),
    ("stereo16", 44100, 4097, 2, "PCM_16"),
    ("mono24", 48000, 1000, 1, "PCM_24"),
    ("stereo24", 22050, 700, 2, "PCM_24"),
    ("mono8", 8000, 900, 1, "PCM_S8"),
    ("surround16", 16000, 300, 6, "PCM_16"),
    ("one", 16000, 1, 1, "PCM_16"),
]:
    path = here / (name + ".flac")
    soundfile.write(path, sound(samples, channels), rate, subtype=subtype)
    read, rate = soundfile.read(path, dtype="float32", always_2d=True)
    mean = read[:, 0].copy()
    for channel in range(1, channels):
        mean += read[:, channel]
    mean /= np.float32(channels)
    cases.append(
        dict(
            name=name,
            rate=rate,
            samples=len(mean),
            first=float(mean[0]),
            sha256=hashlib.sha256(mean.astype("<f4").tobytes()).hexdigest(),
        )
    )
(here / "flac.json").write_text(json.dumps(cases, indent=1) + "\n")
