"""A model of SentencePiece in a folder as SigLIP's, and what SiglipTokenizer makes of texts: python tokenizer.py writes the
folder tokenizer beside it. The model is kept if it is there, since training is not the same everywhere.

Needs transformers 5.17.0 and sentencepiece 0.2.
"""

import json
import pathlib
import tempfile

import sentencepiece
from transformers import SiglipTokenizer

here = pathlib.Path(__file__).resolve().parent / "tokenizer"
CAPTIONS = [
    "a photo of a cat",
    "a photo of a dog",
    "this is a photo of a red running shoe",
    "two cats and three dogs in the rain",
    "the quick brown fox jumps over the lazy dog",
    "café naïve résumé",
    "سلام دنیا این یک متن فارسی است",
    "numbers 1234567 and 314159 dont theyre weve",
]
TEXTS = [
    *CAPTIONS,
    "This is a photo of a Cat.",
    "A tokenizer cuts TEXTS -- into tokens; and don't stop!",
    "{}[]()<>/\\|@#$%^&*~`'\"=+_",
    "",
    " ",
    "...",
    "  leading and  double   spaces  ",
    "a\tb\nc\r\nd",
    "a\u2028b\u00a0c\u3000d",
    "ﬁne ½ ｆｕｌｌ Ⅷ ℃ ÀÉ",
    "▁▁ already ▁marked",
    "“quoted” – dashes…",
    "2",
    "dogs " * 40,
]


def make():
    return SiglipTokenizer(vocab_file=str(here / "spiece.model"), model_max_length=24, model_input_names=["input_ids"])


if __name__ == "__main__":
    here.mkdir(exist_ok=True)
    if not (here / "spiece.model").exists():
        with tempfile.TemporaryDirectory() as folder:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(CAPTIONS * 4),
                model_prefix=folder + "/m",
                hard_vocab_limit=False,
                minloglevel=2,
                vocab_size=240,
                pad_id=0,
                eos_id=1,
                unk_id=2,
                bos_id=-1,
                normalization_rule_name="identity",
            )
            (here / "spiece.model").write_bytes((pathlib.Path(folder) / "m.model").read_bytes())
    tok = make()
    tok.save_pretrained(here)
    cases = [dict(text=t, ids=tok(t)["input_ids"]) for t in TEXTS]
    filled = tok(TEXTS, padding="max_length", max_length=24, truncation=True)
    (here / "cases.json").write_text(json.dumps(dict(cases=cases, filled=filled["input_ids"])) + "\n")
