"""Models of SentencePiece as in folders of transformers that have no tokenizer.json, and what SentencePiece itself makes of
texts: python pieces.py writes the folder pieces beside it.

Needs sentencepiece 0.2. A model that is there is kept, since training is not the same everywhere. The ids of a class are
those of the model, numbered as the class does, with its special tokens.
"""

import json
import pathlib
import tempfile

import sentencepiece

here = pathlib.Path(__file__).resolve().parent / "pieces"
SENTENCES = [
    "The quick brown fox jumps over the lazy dog.",
    "A tokenizer cuts texts into tokens, and tokens into pieces!",
    "Café, naïve, résumé: accents stay.",
    "سلام دنیا، این یک متن فارسی است.",
    "Numbers 1234567 and 3.14159, don't they're we've",
    "Привет, мир!",
    "日本語のテキスト",
    "unaffable unwanted running runner ran",
    "def main(argv): return 0",
]
TEXTS = [
    *SENTENCES,
    "",
    " ",
    "a",
    "  leading and  double   spaces  ",
    "a\tb\nc\r\nd",
    "ﬁne ½ ｆｕｌｌ Ⅷ ℃",
    "e\u0301 de\u0301ja\u0300",
    "👩‍👧 🇮🇷 unknown ☃☃ signs",
    "a\u2028b\u00a0c\u200bd\ufeffe\u3000f",
    "▁▁ already ▁marked",
    "qqq\n\n\nzzz   end\n",
    "    indented\n        code",
    "<sep>in the middle<sep>",
    "jumps over" * 5,
]
RULES = [("ﬁ", "fi"), ("\t", " "), ("\n", " "), ("\u3000", " "), ("\u00a0", " "), ("e\u0301", "é")]
FAIRSEQ = ["<s>", "<pad>", "</s>", "<unk>"]
FIVE = "ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT lv_LV my_MM ne_NP"
FIVE = (FIVE + " nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN").split()
FIFTY = "af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN pl_PL ps_AF pt_XX sv_SE sw_KE"
FIFTY = FIVE + (FIFTY + " ta_IN te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI").split()


def train(path, **settings):
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        rules = pathlib.Path(folder) / "rules.tsv"
        lines = [" ".join(f"{ord(c):X}" for c in a) + "\t" + " ".join(f"{ord(c):X}" for c in b) for a, b in RULES]
        rules.write_text("\n".join(lines) + "\n")
        if settings.pop("rules", False):
            settings["normalization_rule_tsv"] = str(rules)
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(SENTENCES * 4),
            model_prefix=folder + "/m",
            hard_vocab_limit=False,
            minloglevel=2,
            **settings,
        )
        path.write_bytes((pathlib.Path(folder) / "m.model").read_bytes())


def write(name, file, config, number, around, special=None, **settings):
    """A folder. number gives a piece its id; around puts special tokens around the ids of one text or of two"""
    folder = here / name
    train(folder / file, **settings)
    for other, content in config.items():
        (folder / other).write_text(json.dumps(content) + "\n")
    sp = sentencepiece.SentencePieceProcessor(model_file=str(folder / file))
    ids = lambda text: [number(sp, i) for i in sp.encode(text)]
    cases = []
    # An added token cuts a text in two, each of which gets a space before it; SentencePiece does not cut.
    whole = [t for t in TEXTS if "<sep>" not in t or "user_defined_symbols" not in settings]
    for texts in [[t] for t in whole] + [["the quick", "brown  fox"], ["", "b"]]:
        pieces = [ids(t) for t in texts]
        cases.append(dict(texts=texts, ids=around(*pieces), decoded=sp.decode(known(sp, texts[0]))))
    (folder / "cases.json").write_text(json.dumps(cases) + "\n")


# What is decoded: a text without what the vocabulary lacks
known = lambda sp, text: [i for i in sp.encode(text) if not sp.is_unknown(i)]
same = lambda sp, i: i
fairseq = lambda sp, i: i + 1 if i > 2 else {0: 3, 1: 0, 2: 2}[i]
size = lambda name, file: sentencepiece.SentencePieceProcessor(model_file=str(here / name / file)).get_piece_size()
T5 = dict(pad_id=0, eos_id=1, unk_id=2, bos_id=-1, vocab_size=300)
write(
    "t5",
    "spiece.model",
    {"tokenizer_config.json": {"tokenizer_class": "T5Tokenizer"}},
    same,
    lambda a, b=None: a + [1] + ([] if b is None else b + [1]),
    **T5,
)
write(
    "mt5",
    "spiece.model",
    {"tokenizer_config.json": {"extra_ids": 0}, "config.json": {"model_type": "mt5"}},
    same,
    lambda a, b=None: a + [1] + ([] if b is None else b + [1]),
    byte_fallback=True,
    rules=True,
    user_defined_symbols=["<sep>"],
    **dict(T5, vocab_size=420),
)
write(
    "deberta",
    "spm.model",
    {
        "tokenizer_config.json": {"do_lower_case": False, "vocab_type": "spm"},
        "config.json": {"model_type": "deberta-v2"},
        "added_tokens.json": {"[MASK]": 300},
    },
    same,
    lambda a, b=None: [1] + a + [2] + ([] if b is None else b + [2]),
    rules=True,
    pad_id=0,
    bos_id=1,
    eos_id=2,
    unk_id=3,
    pad_piece="[PAD]",
    bos_piece="[CLS]",
    eos_piece="[SEP]",
    unk_piece="[UNK]",
    vocab_size=300,
)
write(
    "xlmr",
    "sentencepiece.bpe.model",
    {"config.json": {"model_type": "xlm-roberta"}},
    fairseq,
    lambda a, b=None: [0] + a + [2] + ([] if b is None else [2] + b + [2]),
    rules=True,
    vocab_size=300,
)
for name, class_, codes, lang in [
    ("mbart", "MBartTokenizer", FIVE, "fr_XX"),
    ("mbart50", "MBart50Tokenizer", FIFTY, None),
]:
    config = {"tokenizer_class": class_} | ({"src_lang": lang} if lang else {})
    file = "sentencepiece.bpe.model"
    train(here / name / file, rules=True, vocab_size=300)
    code = size(name, file) + 1 + codes.index(lang or "en_XX")
    write(
        name,
        file,
        {"tokenizer_config.json": config},
        fairseq,
        (lambda a, b=(): a + list(b) + [2, code]) if lang else (lambda a, b=(): [code] + a + list(b) + [2]),
        rules=True,
        vocab_size=300,
    )
LLAMA = dict(
    model_type="bpe",
    vocab_size=600,
    byte_fallback=True,
    split_digits=True,
    normalization_rule_name="identity",
    remove_extra_whitespaces=False,
    allow_whitespace_only_pieces=True,
)
write(
    "llama",
    "tokenizer.model",
    {"tokenizer_config.json": {"tokenizer_class": "LlamaTokenizer", "add_eos_token": True}},
    same,
    lambda a, b=None: [1] + a + [2] + ([] if b is None else [1] + b + [2]),
    **LLAMA,
)
write(
    "mistral",
    "tokenizer.model",
    {"tokenizer_config.json": {"add_bos_token": False}, "config.json": {"model_type": "mistral"}},
    same,
    lambda a, b=(): a + list(b),
    add_dummy_prefix=False,
    **LLAMA,
)
