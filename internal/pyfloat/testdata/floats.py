"""Writes floats.json: floats by their bits, and what Python and PyYAML make of them."""

import json
import math
import random
import struct

import yaml

DECIMALS = (0, 1, 3, 4, 16)


def bits(v):
    return struct.unpack("<Q", struct.pack("<d", v))[0]


def from_bits(n):
    return struct.unpack("<d", struct.pack("<Q", n))[0]


draw = random.Random(5)
values = [
    0.0,
    1.0,
    0.1,
    1.5,
    1e-5,
    1e-4,
    9.999999999999999e-05,
    0.00010000000000000002,
    1e15,
    1e16,
    9999999999999998.0,
    1e17,
    2.5e-5,
    1.25e22,
    123456789012345680.0,
    5e-324,
    2.2250738585072014e-308,
    1.7976931348623157e308,
    0.5,
    2.5,
    2.675,
    1.005,
    0.00005,
    0.15,
    0.25,
    0.35,
    math.pi,
    math.inf,
]
values += [from_bits(draw.getrandbits(63)) for _ in range(30)]
values += [round(draw.uniform(0, 100), draw.randint(0, 6)) for _ in range(30)]
values += [draw.randrange(1 << 60) / 2 ** draw.randrange(1, 60) for _ in range(30)]
values = [v for v in values if not math.isnan(v)]
values += [-v for v in values] + [math.nan]
rows = [
    json.dumps(
        {
            "bits": f"{bits(v):016x}",
            "repr": repr(v),
            "yaml": yaml.safe_dump(v).split("\n")[0],
            "rounded": {d: f"{bits(round(v, d)):016x}" for d in DECIMALS} if math.isfinite(v) else {},
        }
    )
    for v in values
]
with open("floats.json", "w") as file:
    file.write("[\n" + ",\n".join(rows) + "\n]\n")
