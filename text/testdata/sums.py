"""Writes sums.json: what the Hugging Face tokenizers library makes of many texts, as sums over blocks of them.

The texts are every code point, 20,000 random strings of mixed scripts (a small generator that sums_test.go has too),
and the data sets under DATA (first argument; the tests over them are skipped where they are absent). A sum is the
first half of SHA-256 over, for each token, its id (or the text of the piece), the offsets in characters and the
number of the word.
"""

# golden-check: it reads data sets that are not part of this repository
import hashlib
import json
import os
import struct
import sys

import tokenizers
from tokenizers import (
    NormalizedString,
    PreTokenizedString,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "../../../shared/data")

RANGES = [
    (0x20, 0x7E),
    (0x61, 0x7A),
    (0x41, 0x5A),
    (0x20, 0x20),
    (0x09, 0x0D),
    (0x00, 0x1F),
    (0x7F, 0xFF),
    (0xC0, 0x24F),
    (0x300, 0x36F),
    (0x370, 0x3FF),
    (0x400, 0x4FF),
    (0x590, 0x5FF),
    (0x600, 0x6FF),
    (0x600, 0x6FF),
    (0x6F0, 0x6F9),
    (0x900, 0x97F),
    (0xE00, 0xE7F),
    (0x1100, 0x11FF),
    (0x1680, 0x18AF),
    (0x1AB0, 0x1AFF),
    (0x1DC0, 0x1DFF),
    (0x1E00, 0x1EFF),
    (0x1F00, 0x1FFF),
    (0x2000, 0x206F),
    (0x20D0, 0x20F0),
    (0x2100, 0x218F),
    (0x3000, 0x30FF),
    (0x4E00, 0x9FFF),
    (0xAC00, 0xD7A3),
    (0xA600, 0xABFF),
    (0xF900, 0xFAFF),
    (0xFB1D, 0xFDFF),
    (0xFE00, 0xFE6F),
    (0xFF00, 0xFFFF),
    (0x10000, 0x1FFFF),
    (0x1D100, 0x1D1FF),
    (0x1F300, 0x1FAFF),
    (0x20000, 0x2FFFF),
    (0xE0000, 0xE01EF),
    (0x0, 0x10FFFF),
]


def random_texts(n, seed):
    """n strings of the generator that the Go test has too."""
    state = seed

    def draw(k):
        nonlocal state
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (state >> 33) % k

    texts = []
    for _ in range(n):
        text = ""
        for _ in range(draw(24)):
            if draw(40) == 0:
                text += "[MASK]"
                continue
            low, high = RANGES[draw(len(RANGES))]
            for _ in range(1 + draw(3)):
                c = low + draw(high - low + 1)
                if not 0xD800 <= c <= 0xDFFF:
                    text += chr(c)
        texts.append(text)
    return texts


def code_points():
    """All code points, each between letters, 32 of them in a text."""
    return [
        "".join("a" + chr(c) + "B" for c in range(i, i + 32))
        for i in range(0, 0x110000, 32)
        if not 0xD800 <= i <= 0xDFFF
    ]


def splits(normalizer, pre_tokenizer):
    def of(text):
        p = PreTokenizedString(text)
        if normalizer:
            p.normalize(lambda n: normalizer.normalize(n))
        pre_tokenizer.pre_tokenize(p)
        out = b""
        for piece, (start, end), _ in p.get_splits(offset_referential="original", offset_type="char"):
            out += piece.encode() + struct.pack("<qq", start, end)
        return out

    return of


def encodings(tokenizer):
    def of(text):
        e = tokenizer.encode(text)
        out = b""
        for i, (s, t), w in zip(e.ids, e.offsets, e.word_ids):
            out += struct.pack("<qqqq", i, s, t, -1 if w is None else w)
        return out

    return of


def sums(texts, of, block):
    out = []
    for i in range(0, len(texts), block):
        h = hashlib.sha256()
        for t in texts[i : i + block]:
            b = of(t)
            h.update(struct.pack("<q", len(b)) + b)
        out.append(h.hexdigest()[:16])
    return out


def lines(path):
    return [l for l in open(os.path.join(DATA, path), encoding="utf-8", newline="").read().split("\n")]


def data_sets():
    return {
        name: [l for f in files for l in lines(f)]
        for name, files in {
            "mrpc": ["mrpc/train.tsv", "mrpc/dev.tsv", "mrpc/test.tsv"],
            "sst2": ["sst2/train.tsv", "sst2/dev.tsv"],
            "ag_news": ["ag_news/sample10k.tsv"],
            "sms_spam": ["sms_spam/sms.tsv"],
            "rt_polarity": ["rt_polarity/rt-polarity.pos", "rt_polarity/rt-polarity.neg"],
        }.items()
    }


def bert(vocab, **normalizer):
    t = Tokenizer(models.WordPiece.from_file(vocab, unk_token="[UNK]"))
    t.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    t.normalizer = normalizers.BertNormalizer(**normalizer)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.post_processor = processors.BertProcessing(("[SEP]", t.token_to_id("[SEP]")), ("[CLS]", t.token_to_id("[CLS]")))
    t.decoder = decoders.WordPiece()
    return t


GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace("{1,3}", "")
MIXED = r"\d+|\w*[[:digit:]é-ü]|[\p{L}_]{2,}|(?i:ab+)|\p{Lu}\p{Ll}*|^.|.$|\p{Arabic}+"

every = pre_tokenizers.Split(Regex("(?m:.)"), "isolated")
COMPONENTS = {
    "BertNormalizer": (normalizers.BertNormalizer(), every),
    "BertNormalizer cased": (normalizers.BertNormalizer(lowercase=False), every),
    "BertNormalizer lowercase with accents": (normalizers.BertNormalizer(strip_accents=False), every),
    "BertNormalizer cased without accents": (normalizers.BertNormalizer(strip_accents=True, lowercase=False), every),
    "BertNormalizer unclean": (normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=False), every),
    "NFC": (normalizers.NFC(), every),
    "NFD": (normalizers.NFD(), every),
    "NFKC": (normalizers.NFKC(), every),
    "NFKD": (normalizers.NFKD(), every),
    "Lowercase": (normalizers.Lowercase(), every),
    "StripAccents": (normalizers.StripAccents(), every),
    "NFD, StripAccents, Lowercase": (
        normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase()]),
        every,
    ),
    "Strip": (normalizers.Strip(), every),
    "Strip left": (normalizers.Strip(left=True, right=False), every),
    "Nmt": (normalizers.Nmt(), every),
    "Prepend": (normalizers.Prepend("▁x"), every),
    "ByteLevel": (normalizers.ByteLevel(), every),
    "Replace text": (normalizers.Replace("a", "éa"), every),
    "Replace regexp": (normalizers.Replace(Regex(r"\s+|[a-f]{2}"), " "), every),
    "BertPreTokenizer": (None, pre_tokenizers.BertPreTokenizer()),
    "Whitespace": (None, pre_tokenizers.Whitespace()),
    "WhitespaceSplit": (None, pre_tokenizers.WhitespaceSplit()),
    "Digits": (None, pre_tokenizers.Digits(False)),
    "Digits individual": (None, pre_tokenizers.Digits(True)),
    "CharDelimiterSplit": (None, pre_tokenizers.CharDelimiterSplit("a")),
    "FixedLength": (None, pre_tokenizers.FixedLength(3)),
    "Metaspace": (normalizers.NFKC(), pre_tokenizers.Metaspace()),
    "Metaspace never, whole": (None, pre_tokenizers.Metaspace(prepend_scheme="never", split=False)),
    "Metaspace behind a split": (
        None,
        pre_tokenizers.Sequence([pre_tokenizers.Punctuation(), pre_tokenizers.Metaspace(prepend_scheme="first")]),
    ),
    "ByteLevel words": (None, pre_tokenizers.ByteLevel()),
    "ByteLevel words without a space": (normalizers.NFC(), pre_tokenizers.ByteLevel(add_prefix_space=False)),
    "ByteLevel bytes": (None, pre_tokenizers.ByteLevel(use_regex=False)),
    "Split GPT-2": (None, pre_tokenizers.Split(Regex(GPT2), "isolated")),
    "Split Llama 3": (None, pre_tokenizers.Split(Regex(LLAMA3), "isolated")),
    "Split Qwen 2": (None, pre_tokenizers.Split(Regex(QWEN2), "removed", invert=True)),
    "Split mixed": (None, pre_tokenizers.Split(Regex(MIXED), "isolated")),
}
for behavior in ["isolated", "removed", "merged_with_previous", "merged_with_next", "contiguous"]:
    COMPONENTS["Punctuation " + behavior] = (None, pre_tokenizers.Punctuation(behavior))
    COMPONENTS["Split inverted " + behavior] = (None, pre_tokenizers.Split(Regex("[a-z]+"), behavior, invert=True))

SHARED = {
    "uncased": {},
    "cased": {"lowercase": False},
    "keep accents": {"strip_accents": False},
    "no Chinese, no cleaning": {"handle_chinese_chars": False, "clean_text": False},
}

if __name__ == "__main__":
    result = {"tokenizers": tokenizers.__version__, "components": {}, "data": {}}
    points, texts = code_points(), random_texts(20000, 1)
    for name, (n, p) in COMPONENTS.items():
        result["components"][name] = {
            "pipeline": {
                "normalizer": n and json.loads(n.__getstate__()),
                "pre_tokenizer": json.loads(p.__getstate__()),
            },
            "random": sums(texts, splits(n, p), 1000),
            "points": sums(points, splits(n, p), 0x800),
        }
        print(name, file=sys.stderr)
    vocab = os.path.join(DATA, "models/bert_base_uncased_vocab/vocab.txt")
    if os.path.exists(vocab):
        for name, options in SHARED.items():
            t = bert(vocab, **options)
            result["data"][name] = {k: sums(v, encodings(t), 5000) for k, v in data_sets().items()}
            result["data"][name]["random"] = sums(texts, encodings(t), 1000)
            result["data"][name]["points"] = sums(points, encodings(t), 0x800)
            print(name, file=sys.stderr)
    with open(os.path.join(HERE, "sums.json"), "w") as f:
        json.dump(result, f, indent=1, ensure_ascii=False)
        f.write("\n")
