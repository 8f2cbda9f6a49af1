"""Writes charsmap.json: what the normalizer Precompiled and the pre-tokenizer UnicodeScripts of the Hugging Face
tokenizers library make of many texts, as sums over blocks of them (as in sums.py), and a Unigram tokenizer over such
a normalizer, as T5 and XLM-R have it, with encodings of a few texts.

The tables are made with sentencepiece 0.2.3 of rules that are written here: "few" has those that show how clusters,
shrinking and growing text work, "many" are the compatibility mappings of some scripts, as in nmt_nfkc. Given a folder
as its first argument, the script writes charsmaps.json there: the same for the tables nmt_nfkc, nmt_nfkc_cf, nfkc and
nfkc_cf of sentencepiece, which are too large to keep; GOTRAINER_CHARSMAPS names that file to the test.
"""

# golden-check: the library's trainers number equal pieces in the order of a hash table, so another run learns another tokenizer; the tests hold for each
import io
import json
import os
import sys
import tempfile
import unicodedata

import sentencepiece
import tokenizers
from sentencepiece import sentencepiece_model_pb2
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from sums import code_points, random_texts, splits, sums
from tiny import SENTENCES, TEXTS, attempt

HERE = os.path.dirname(os.path.abspath(__file__))

FEW = [
    ("a", "b"),
    ("e\u0301", "é"),
    ("B", "CDE"),
    ("\u001e", ""),
    ("™", "TM"),
    ("\u0600", "<"),
    ("\u00a9", "(c)"),
    ("क", "k"),
    ("가", "ga"),
    ("\u1100", "g"),
    ("\r", " "),
    ("\n", " "),
    ("\u200d", ""),
    ("\u064a", "\u06cc"),
    ("\u0643", "\u06a9"),
    ("\u064b", ""),
    ("\u200c", " "),
    ("\u0301", "'"),
    ("x\u0301\u0323", "y"),
    ("\U0001f1ee", "I"),
    ("i\u0307", "i"),
    ("ab", "never"),
    ("\u0915\u094d", "K"),
    ("o\u0308", ""),
    ("😀", ":)"),
]
SCRIPTS = [
    (0xA0, 0x17F),
    (0x370, 0x3FF),
    (0x600, 0x6FF),
    (0x2000, 0x206F),
    (0x2100, 0x218F),
    (0xFB00, 0xFB4F),
    (0xFE70, 0xFEFF),
    (0xFF00, 0xFFEF),
    (0x1100, 0x1112),
]
MANY = [
    (chr(c), unicodedata.normalize("NFKC", chr(c)))
    for low, high in SCRIPTS
    for c in range(low, high + 1)
    if unicodedata.normalize("NFKC", chr(c)) != chr(c)
]
MANY += [
    (unicodedata.normalize("NFD", chr(c)), chr(c))
    for c in range(0xC0, 0x17F)
    if unicodedata.normalize("NFD", chr(c)) != chr(c)
]

ALPHABET = "aaeBx \r\n\u001e\u0301\u0323\u0307\u0308\u200d\u200c\ufe0f™\u0600\u0600\u070f©©😀👩👧\U0001f3fdकखठ\u094d\u094d\u093c\u0903가각\u1100\u1161\u11a8\U0001f1ee\U0001f1f7سيك\u064b\u064e،oi\u00ad\u0e33ก¼ﬁ"


def cluster_texts(n, seed):
    """n strings of the alphabet, by the generator that the Go test has too."""
    state = seed

    def draw(k):
        nonlocal state
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (state >> 33) % k

    return ["".join(ALPHABET[draw(len(ALPHABET))] for _ in range(draw(16))) for _ in range(n)]


def table(rules=None, name=None):
    """The precompiled_charsmap that sentencepiece makes of rules, or the one of a name."""
    options = {"normalization_rule_name": name}
    if rules:
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".tsv", delete=False) as f:
            for old, new in rules:
                f.write(" ".join("%X" % ord(c) for c in old) + "\t" + " ".join("%X" % ord(c) for c in new) + "\n")
        options = {"normalization_rule_tsv": f.name}
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES * 3),
        model_writer=model,
        vocab_size=120,
        hard_vocab_limit=False,
        minloglevel=2,
        **options,
    )
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model.getvalue())
    return proto.normalizer_spec.precompiled_charsmap


EACH = pre_tokenizers.FixedLength(1)  # shows the span of every character


def component(n, p):
    return {
        "pipeline": {"normalizer": n and json.loads(n.__getstate__()), "pre_tokenizer": json.loads(p.__getstate__())},
        "random": sums(random_texts(20000, 3), splits(n, p), 1000),
        "points": sums(code_points(), splits(n, p), 0x800),
        "clusters": sums(cluster_texts(40000, 4), splits(n, p), 2000),
    }


def learnt_before(name):
    """The model of a tokenizer in charsmap.json, if it is there: what the library learns differs from run to run."""
    path = os.path.join(HERE, "charsmap.json")
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as f:
        model = json.load(f)["tokenizers"][name]["tokenizer"]["model"]
    if model["byte_fallback"]:
        model["byte_fallback"], model["vocab"] = False, model["vocab"][:-256]
    return Tokenizer.from_str(json.dumps({"model": model, "added_tokens": []})).model


def unigram(name, charsmap, byte_fallback):
    """A tokenizer with the parts that transformers gives T5's and XLM-R's."""
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.Sequence([normalizers.Precompiled(charsmap), normalizers.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer, t.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    special = ["<unk>", "<s>", "</s>"]
    learnt = learnt_before(name)
    if learnt:
        t.model = learnt
        t.add_special_tokens(special)
    else:
        t.train_from_iterator(
            SENTENCES,
            trainers.UnigramTrainer(vocab_size=200, special_tokens=special, unk_token="<unk>", show_progress=False),
        )
    if byte_fallback:
        f = json.loads(t.to_str())
        f["model"]["byte_fallback"] = True
        f["model"]["vocab"] += [["<0x%02X>" % b, -20.0] for b in range(256)]
        f["decoder"] = {
            "type": "Sequence",
            "decoders": [
                {"type": "ByteFallback"},
                {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
            ],
        }
        t = Tokenizer.from_str(json.dumps(f))
    t.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    return t


def encoded(t):
    cases = []
    for s in TEXTS + cluster_texts(40, 5):
        case = attempt(lambda: t.encode(s))
        case["decoded"] = t.decode(case["encoding"]["ids"])
        cases.append({"text": s, **case})
    return {"tokenizer": json.loads(t.to_str()), "cases": cases}


def write(path, result):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(
            dict(version=tokenizers.__version__, alphabet=ALPHABET, **result),
            f,
            ensure_ascii=False,
            separators=(",", ":"),
        )
        f.write("\n")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        names = ["nmt_nfkc", "nmt_nfkc_cf", "nfkc", "nfkc_cf"]
        write(
            os.path.join(sys.argv[1], "charsmaps.json"),
            {"components": {n: component(normalizers.Precompiled(table(name=n)), EACH) for n in names}},
        )
        sys.exit()
    few, many = normalizers.Precompiled(table(FEW)), normalizers.Precompiled(table(MANY))
    write(
        os.path.join(HERE, "charsmap.json"),
        {
            "components": {
                "few rules": component(few, EACH),
                "many rules": component(many, EACH),
                "few rules twice, behind another": component(normalizers.Sequence([normalizers.NFD(), few, few]), EACH),
                "UnicodeScripts": component(None, pre_tokenizers.UnicodeScripts()),
                "UnicodeScripts behind a split": component(
                    many,
                    pre_tokenizers.Sequence(
                        [pre_tokenizers.UnicodeScripts(), pre_tokenizers.Punctuation(), pre_tokenizers.UnicodeScripts()]
                    ),
                ),
            },
            "tokenizers": {
                n: encoded(unigram(n, table(MANY), n == "byte fallback")) for n in ("xlm-r", "byte fallback")
            },
        },
    )
