"""Small folders of a MarianTokenizer, and what transformers' class makes of texts: python marian.py writes the folder
marian beside it.

Needs sentencepiece 0.2 and transformers 5.17. A model of SentencePiece that is there is kept, since training is not the
same everywhere. vocab.json lacks some pieces of both models, and has pieces of either that the other one lacks.
"""

import json
import pathlib
import tempfile

import sentencepiece
from transformers import MarianTokenizer

here = pathlib.Path(__file__).resolve().parent / "marian"
ENGLISH = [
    "The quick brown fox jumps over the lazy dog.",
    "A tokenizer cuts texts into tokens, and tokens into pieces!",
    "Numbers 1234567 and 3.14159, don't they're we've",
    "unaffable unwanted running runner ran",
    "Where is the bus stop? I am a small frog.",
]
OTHERS = [
    "Où est l'arrêt de bus ? Je suis une petite grenouille.",
    "Café, naïve, résumé : les accents restent.",
    "Привет, мир! Где автобусная остановка?",
    "Я маленькая лягушка, и это жаба.",
]
TEXTS = [
    *ENGLISH,
    *OTHERS,
    "",
    " ",
    "a",
    "  leading and  double   spaces  ",
    "a\tb\nc",
    "ﬁne ½ ｆｕｌｌ ℃",
    "👩‍👧 unknown ☃☃ signs жж ж 漢字",
    "▁▁ already ▁marked",
    "ﬁ\u0301n cafe\u0301\u0301 \u0301a",
    "000 0000 00000, 1111 11111 111111.",
    "runnnning nnn anananana ererererer",
    ">>fra<< Where is the bus stop?",
    ">>rus<<Where is the bus stop?",
    ">>fra<<",
    " >>fra<< not at the start >>fra<<",
    ">>xyz<< unknown code",
    ">>never ends",
    ">> any words << are a code",
    "<<>> neither",
    "<unk> and</s>>>fra<< parts <pad>of a text<s>",
    "the lazy dog . isn 't it ? no , I 'm",
]
RULES = [("ﬁ", "fi"), ("\t", " "), ("\n", " "), ("\u00a0", " "), ("e\u0301", "é")]  # few, so that files are small
CODES = [">>fra<<", ">>rus<<"]


def train(path, sentences, size):
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        rules = pathlib.Path(folder) / "rules.tsv"
        points = lambda text: " ".join(f"{ord(c):X}" for c in text)
        rules.write_text("".join(f"{points(a)}\t{points(b)}\n" for a, b in RULES))
        sentencepiece.SentencePieceTrainer.train(
            normalization_rule_tsv=str(rules),
            sentence_iterator=iter(sentences * 4),
            model_prefix=folder + "/m",
            hard_vocab_limit=False,
            vocab_size=size,
            minloglevel=2,
        )
        path.write_bytes((pathlib.Path(folder) / "m.model").read_bytes())


def pieces(path):
    sp = sentencepiece.SentencePieceProcessor(model_file=str(path))
    return [sp.id_to_piece(i) for i in range(sp.get_piece_size()) if not sp.is_control(i) and not sp.is_unknown(i)]


def write(name, separate, **config):
    folder = here / name
    train(folder / "source.spm", ENGLISH, 90)
    train(folder / "target.spm", OTHERS, 130)
    source, target = pieces(folder / "source.spm"), pieces(folder / "target.spm")
    number = lambda tokens: {t: i for i, t in enumerate(["</s>", "<unk>", *tokens])}
    if separate:
        vocab = number(["<pad>", *sorted(source)[:-2]])
        other = number(["<pad>", *sorted(target)[3:]])
        (folder / "target_vocab.json").write_text(json.dumps(other, ensure_ascii=False) + "\n")
        config["separate_vocabs"] = True
    else:
        vocab = number([*sorted(set(source + target))[5:], *CODES, "<pad>"])
    (folder / "vocab.json").write_text(json.dumps(vocab, ensure_ascii=False) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps(config) + "\n")
    t = MarianTokenizer.from_pretrained(folder)
    cases = []
    for text in TEXTS:
        made = t(text, text_target=text)
        cases.append(
            dict(
                text=text,
                ids=made.input_ids,
                labels=made.labels,
                # of the vocabulary of target texts, whatever they are
                decoded=t.decode(made.labels, skip_special_tokens=True),
                whole=t.decode(made.labels),
            )
        )
    pair = t("the lazy dog", ">>fra<< frog").input_ids
    (folder / "cases.json").write_text(json.dumps(dict(cases=cases, pair=pair)) + "\n")


write("shared", False, source_lang="eng", target_lang="mul")
write("separate", True, tokenizer_class="MarianTokenizer", clean_up_tokenization_spaces=True, unk_token="<unk>")
