"""Trains small tokenizers on a few sentences with the Hugging Face tokenizers library and writes what they make of
texts.

For each name: NAME.json is the tokenizer, cases.json has the encodings of all. Of settings that a file holds,
truncation and padding are set by the test from the case. What the library learns differs from run to run, so the
vocabulary of a NAME.json that is there is kept: delete it to learn one again.
"""

# golden-check: the library's trainers number equal pieces in the order of a hash table, so another run learns another tokenizer; the tests hold for each
import json
import os

import tokenizers
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tiny")
os.makedirs(HERE, exist_ok=True)

SENTENCES = [
    "The quick brown fox jumps over the lazy dog.",
    "A tokenizer cuts texts into tokens, and tokens into pieces!",
    "Training is what trainers do; training takes time.",
    "Café, naïve, résumé: accents are stripped by the uncased model.",
    "سلام دنیا، این یک متن فارسی است.",
    "می‌روم و برمی‌گردم؛ کتاب‌ها را می‌خوانم.",
    "شماره‌ی پلاک ۱۲ب۳۴۵ است و ٪۲۰ تخفیف دارد؟",
    "日本語のテキスト und deutscher Text mit Straßen.",
    "Numbers 1234567 and 3.14159, don't they're we've I'll he'd I'm",
    "def main(argv):\n    return 0  # code\t\tand tabs\r\n",
    "unaffable unwanted running runner ran retokenized pretokenization",
    "Привет, мир! Ёлка и йод.",
]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]

TEXTS = SENTENCES + [
    "",
    " ",
    "a",
    "UNwantéd,running",
    "Héllo  wörld",
    "[CLS] in a text [SEP]",
    "the[MASK]dog",
    "the [MASK] dog",
    " [MASK]",
    "[MASK][MASK]",
    "[mask] [MAS",
    "x" * 101,
    "x" * 100,
    "e\u0301\u0323a\u0327\u0301",
    "\ufeffstart\u200bmiddle\u00adend\u0000",
    "ﬁne ½ Ⅷ ｆｕｌｌ",
    "İstanbul ΣΊΣΥΦΟΣ ǅ",
    "한국어 텍스트",
    "👩‍👩‍👧 family 🇮🇷 flag",
    "a\u2028b\u2029c\u0085d\u00a0e",
    "Foo bar FOO barfoo foobar fo",
    "<hole>  x<hole>y",
    "don't DON'T we'Re 'Tis 'ſo",
    "  leading and trailing  ",
    "tab\tnewline\n\n\nend",
    "1 22 333 4444 55555",
    "qqq zzz",
    "\U00020000\U0002b820 x",
]
PAIRS = [
    ("the quick brown fox", "jumps over the lazy dog and over the dog"),
    ("a", "b"),
    ("", ""),
    ("سلام دنیا", "the dog [SEP]"),
    ("training is what trainers do", ""),
]


def show(e, overflowing=True):
    out = {
        "ids": e.ids,
        "type_ids": e.type_ids,
        "tokens": e.tokens,
        "words": [-1 if w is None else w for w in e.word_ids],
        "offsets": e.offsets,
        "special": e.special_tokens_mask,
        "attention": e.attention_mask,
        "sequences": [-1 if s is None else s for s in e.sequence_ids],
    }
    if not overflowing:
        return {k: out[k] for k in ("ids", "type_ids", "offsets", "special", "sequences")}
    if e.overflowing:
        out["overflowing"] = [show(o, False) for o in e.overflowing]
    return out


def attempt(f):
    try:
        return {"encoding": show(f())}
    except BaseException as e:  # the library panics where this module returns an error
        return {"error": str(e).split("\n")[0]}


TRUNCATIONS = [
    {"max_length": m, "strategy": s, "stride": k, "direction": d}
    for m in (5, 8)
    for s in ("longest_first", "only_first", "only_second")
    for k in (0, 2)
    for d in ("right", "left")
    if m == 5 or k
]
PADDINGS = [
    {},
    {"length": 12},
    {"length": 3},
    {"pad_to_multiple_of": 8},
    {"direction": "left", "pad_id": 3, "pad_type_id": 1, "pad_token": "[X]"},
    {"length": 10, "direction": "left", "pad_to_multiple_of": 4},
]


def cases(t, name):
    t.no_truncation()
    t.no_padding()
    out = {
        "texts": [
            {
                "text": s,
                **attempt(lambda: t.encode(s)),
                "plain": attempt(lambda: t.encode(s, add_special_tokens=False)).get("encoding", {}).get("ids"),
            }
            for s in TEXTS
        ]
    }
    out["pairs"] = [{"a": a, "b": b, **attempt(lambda: t.encode(a, b))} for a, b in PAIRS]
    words = ["The", "quick-brown", "", "[MASK]", "  fox", "naïve"]
    out["words"] = [
        {"words": words, **attempt(lambda: t.encode(words, is_pretokenized=True))},
        {
            "words": words[:2],
            "pair": words[3:],
            **attempt(lambda: t.encode(words[:2], words[3:], is_pretokenized=True)),
        },
    ]
    out["decoded"] = []
    for s in TEXTS:
        ids = t.encode(s).ids
        out["decoded"].append(
            {"ids": ids, "text": t.decode(ids), "with_special": t.decode(ids, skip_special_tokens=False)}
        )
    out["tokens"] = [t.id_to_token(i) for i in range(t.get_vocab_size() + 2)]
    if name not in ("uncased", "cased", "roberta"):
        return out
    out["truncated"] = []
    for o in TRUNCATIONS:
        try:
            t.enable_truncation(**o)
        except BaseException as e:
            out["truncated"].append({"truncation": o, "refused": str(e)})
            continue
        o = dict(o, set=json.loads(t.to_str())["truncation"])
        for a, b in [("The quick brown dog", None)] + PAIRS[:2]:
            case = attempt(lambda: t.encode(a) if b is None else t.encode(a, b))
            out["truncated"].append({"truncation": o["set"], "a": a, "b": b, **case})
    t.no_truncation()
    out["padded"] = []
    for o in PADDINGS:
        t.enable_padding(**o)
        out["padded"].append(
            {
                "padding": json.loads(t.to_str())["padding"],
                "texts": TEXTS[:3] + ["a"],
                "encodings": [show(e) for e in t.encode_batch(TEXTS[:3] + ["a"])],
            }
        )
    t.enable_truncation(6, stride=1)
    out["padded"].append(
        {
            "padding": json.loads(t.to_str())["padding"],
            "truncation": json.loads(t.to_str())["truncation"],
            "texts": TEXTS[:2],
            "encodings": [show(e) for e in t.encode_batch(TEXTS[:2])],
        }
    )
    t.no_truncation()
    t.no_padding()
    return out


def learn(t, name, sentences, trainer, special):
    """Trains a tokenizer, or gives it the model of the file that is there."""
    path = os.path.join(HERE, name + ".json")
    if not os.path.exists(path):
        t.train_from_iterator(sentences, trainer)
        return
    t.model = Tokenizer.from_file(path).model
    t.add_special_tokens(special)


def wordpiece(name, normalizer, size=260):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer, t.pre_tokenizer, t.decoder = normalizer, pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
    learn(
        t,
        name,
        SENTENCES,
        trainers.WordPieceTrainer(vocab_size=size, special_tokens=SPECIAL, show_progress=False),
        SPECIAL,
    )
    return t


def template(t):
    return processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(s, t.token_to_id(s)) for s in ("[CLS]", "[SEP]")],
    )


def build():
    t = wordpiece("uncased", normalizers.BertNormalizer())
    t.post_processor = processors.BertProcessing(("[SEP]", t.token_to_id("[SEP]")), ("[CLS]", t.token_to_id("[CLS]")))
    yield "uncased", t

    t = wordpiece("cased", normalizers.BertNormalizer(lowercase=False))
    t.post_processor = template(t)
    t.add_tokens(
        [
            AddedToken("Foo", single_word=True),
            AddedToken("<hole>", lstrip=True, rstrip=True),
            AddedToken("<hole>y", normalized=False),
            AddedToken("bar", normalized=False),
        ]
    )
    yield "cased", t

    t = wordpiece("pieces", normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()]))
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation(), pre_tokenizers.Digits(True)]
    )
    t.add_tokens([AddedToken("FOO", normalized=True), AddedToken("Bar", normalized=True, single_word=True)])
    t.post_processor = processors.RobertaProcessing(
        ("[SEP]", t.token_to_id("[SEP]")), ("[CLS]", t.token_to_id("[CLS]"))
    )
    t.decoder = decoders.Sequence(
        [decoders.WordPiece(cleanup=False), decoders.Replace("o", "0"), decoders.Strip(" ", 1, 1), decoders.Fuse()]
    )
    yield "pieces", t

    t = Tokenizer(
        models.WordLevel(
            {w: i for i, w in enumerate(SPECIAL + "the a dog training 1 , 。 سلام".split())}, unk_token="[UNK]"
        )
    )
    t.pre_tokenizer, t.normalizer = pre_tokenizers.Whitespace(), normalizers.Lowercase()
    t.add_special_tokens(SPECIAL)
    yield "words", t

    t = Tokenizer(models.BPE())
    t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    learn(
        t,
        "gpt2",
        SENTENCES,
        trainers.BpeTrainer(
            vocab_size=400,
            special_tokens=["<|endoftext|>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
        ["<|endoftext|>"],
    )
    t.post_processor = processors.ByteLevel(trim_offsets=True)
    yield "gpt2", t

    t = Tokenizer.from_str(t.to_str())
    t.pre_tokenizer, t.post_processor = (
        pre_tokenizers.ByteLevel(),
        processors.RobertaProcessing(("<|endoftext|>", 0), ("<|endoftext|>", 0)),
    )
    yield "roberta", t

    from sums import LLAMA3
    from tokenizers import Regex

    t = Tokenizer(models.BPE(ignore_merges=True))
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    t.decoder = decoders.ByteLevel()
    learn(
        t,
        "llama3",
        SENTENCES,
        trainers.BpeTrainer(vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False),
        [],
    )
    t.add_special_tokens(["<|begin_of_text|>"])
    begin = ("<|begin_of_text|>", t.token_to_id("<|begin_of_text|>"))
    t.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(
                single="<|begin_of_text|> $A",
                pair="<|begin_of_text|> $A <|begin_of_text|>:1 $B:1",
                special_tokens=[begin],
            ),
        ]
    )
    yield "llama3", t

    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    special = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % b for b in range(256)]
    learn(
        t,
        "llama2",
        SENTENCES[:6],
        trainers.BpeTrainer(vocab_size=500, special_tokens=special, show_progress=False),
        special,
    )
    yield "llama2", t

    t = Tokenizer(models.BPE(unk_token="[UNK]", end_of_word_suffix="</w>"))
    t.pre_tokenizer, t.normalizer, t.decoder = (
        pre_tokenizers.BertPreTokenizer(),
        normalizers.BertNormalizer(),
        decoders.BPEDecoder(),
    )
    learn(
        t,
        "openai",
        SENTENCES[:8],
        trainers.BpeTrainer(vocab_size=300, special_tokens=SPECIAL, end_of_word_suffix="</w>", show_progress=False),
        SPECIAL,
    )
    yield "openai", t

    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.Sequence(
        [normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(tokenizers.Regex(" {2,}"), " ")]
    )
    t.pre_tokenizer, t.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    special = ["<unk>", "<s>", "</s>"]
    learn(
        t,
        "unigram",
        SENTENCES,
        trainers.UnigramTrainer(vocab_size=220, special_tokens=special, unk_token="<unk>", show_progress=False),
        special,
    )
    t.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    yield "unigram", t


if __name__ == "__main__":
    result = {"tokenizers": tokenizers.__version__, "cases": {}}
    for name, t in build():
        t.no_truncation()
        t.no_padding()
        path = os.path.join(HERE, name + ".json")
        if name != "unigram" or not os.path.exists(
            path
        ):  # the library reads some of its own numbers one last place off
            t.save(path, pretty=False)
        result["cases"][name] = cases(t, name)
    with open(os.path.join(HERE, "cases.json"), "w") as f:
        json.dump(result, f, ensure_ascii=False, separators=(",", ":"))
        f.write("\n")
