"""Workload images: decode, grey, resize to 32x128, normalise, batches of 32."""

import time

import common as C

p = C.parser("images", ["raw", "loader0", "loader2"])
p.add_argument("--passes", type=int)
p.add_argument("--workers", type=int, help="workers of loader2")
a = p.parse_args()
torch = C.set_threads(a.threads)
import numpy as np

BATCH, H, W = 32, 32, 128
D = C.DATA
files = (
    sorted((D / "cn_plates" / "train").glob("*.jpg"))
    + sorted((D / "captcha_v2" / "train").glob("*.png"))
    + sorted((D / "iiit5k" / "train").glob("*.png"))
)
if a.tiny:
    files = files[::20]
files = [str(f) for f in files]
passes = a.passes or (1 if a.tiny else 3)

from PIL import Image


def load(f):
    im = Image.open(f).convert("L").resize((W, H), Image.BILINEAR)
    return ((np.asarray(im, dtype=np.float32) / 255.0 - 0.5) / 0.5)[None]


class Files:
    def __len__(self):
        return len(files)

    def __getitem__(self, i):
        return torch.from_numpy(load(files[i]))


def plain():
    for k in range(0, len(files), BATCH):
        yield torch.from_numpy(np.stack([load(f) for f in files[k : k + BATCH]]))


if a.impl.startswith("loader"):
    n = 0 if a.impl == "loader0" else a.workers or 2
    loader = torch.utils.data.DataLoader(Files(), batch_size=BATCH, num_workers=n, persistent_workers=n > 0)

    def run():
        return iter(loader)
else:
    n, run = 0, plain


def one():
    s = ss = cnt = 0
    for b in run():
        s, ss, cnt = s + float(b.sum()), ss + float((b * b).sum()), cnt + b.numel()
    return s / cnt, (ss / cnt - (s / cnt) ** 2) ** 0.5


t = time.perf_counter()
mean, std = one()  # warm-up pass: files into the page cache, workers started
warm = time.perf_counter() - t
first = time.time() - C.PROCESS_START
t0 = time.perf_counter()
for _ in range(passes):
    mean, std = one()
sec = time.perf_counter() - t0
C.result(
    "images",
    a.impl,
    passes * ((len(files) + BATCH - 1) // BATCH),
    sec,
    passes * len(files),
    first,
    round(mean, 6),
    round(std, 6),
    torch.get_num_threads(),
    workers=n,
    files=len(files),
    first_pass_s=round(warm, 4),
)
