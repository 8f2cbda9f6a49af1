"""A tokenizer as ModernBERT's: python tokenizer.py writes the folder tokenizer beside it. See
models/internal/modeltest/tokens.py.
"""

import pathlib
import sys

here = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(here.parents[1] / "internal/modeltest"))
import tokens
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers


def make():
    t = Tokenizer(models.BPE())
    t.normalizer, t.pre_tokenizer, t.decoder = (
        normalizers.NFC(),
        pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=True),
        decoders.ByteLevel(),
    )
    special = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", AddedToken("[MASK]", lstrip=True, special=True)]
    t.train_from_iterator(
        tokens.SENTENCES,
        trainers.BpeTrainer(
            vocab_size=420,
            special_tokens=special,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    t.add_tokens([AddedToken(" " * n, normalized=True) for n in range(8, 1, -1)])
    t.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
    )
    return t


tokens.write(here / "tokenizer", make)
