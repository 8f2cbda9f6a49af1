"""Workload tokenize: WordPiece over real text."""

import os
import sys
import time

import common as C

p = C.parser("tokenize", ["raw", "raw_1", "raw_tuned", "raw_tuned_1", "hf", "hf_1"])
p.add_argument("--batch", type=int, default=1000, help="texts per call")
a = p.parse_args()
one = a.impl.endswith("_1")
n = 1 if one else a.threads or len(os.sched_getaffinity(0))
os.environ["TOKENIZERS_PARALLELISM"] = "false" if one else "true"
os.environ["RAYON_NUM_THREADS"] = str(n)
C.quiet()
texts = [
    line.split("\t")[0]
    for line in (C.DATA / "sst2" / "train.tsv").read_text(encoding="utf-8").split("\n")[1:]
    if line.strip()
]
texts += [
    line.split("\t")[0]
    for line in (C.DATA / "ag_news" / "sample10k.tsv").read_text(encoding="utf-8").split("\n")
    if line.strip()
]
if a.tiny:
    texts = texts[:3000]
if a.impl.startswith("hf"):
    tok = C.make_hf_tokenizer()  # transformers' fast tokenizer, called as a user does

    def call(part):
        return tok(part, truncation=True, max_length=128)["input_ids"]
else:
    t = C.wordpiece()
    t.enable_truncation(128)
    enc = t._tokenizer.encode_batch_fast if a.impl.startswith("raw_tuned") else t._tokenizer.encode_batch

    def call(part):
        return [e.ids for e in enc(part)]


def total(outs):
    return sum(len(i) for i in outs), sum(map(sum, outs))


call(texts[: a.batch])  # warm-up
first = time.time() - C.PROCESS_START
tokens = check = 0
sec = 0.0
for k in range(0, len(texts), a.batch):
    t0 = time.perf_counter()
    out = call(texts[k : k + a.batch])
    sec += time.perf_counter() - t0
    x, y = total(out)  # not timed
    tokens, check = tokens + x, check + y
print(f"{len(texts)} texts, {tokens} tokens", file=sys.stderr)
C.result(
    "tokenize",
    a.impl,
    (len(texts) + a.batch - 1) // a.batch,
    sec,
    len(texts),
    first,
    tokens,
    check % 1000000007,
    n,
    tokens_per_s=round(tokens / sec),
    batch=a.batch,
)
