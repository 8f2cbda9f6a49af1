"""A tokenizer as transformers makes DeBERTa's: python tokenizer.py writes the folder tokenizer beside it. See
models/internal/modeltest/tokens.py.
"""

import json
import pathlib
import sys

here = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(here.parents[1] / "internal/modeltest"))
import tokens
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import DebertaV2Tokenizer


def make():
    t = Tokenizer(models.Unigram())
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.train_from_iterator(
        tokens.SENTENCES,
        trainers.UnigramTrainer(
            vocab_size=200, special_tokens=["[PAD]", "[CLS]", "[SEP]", "[UNK]"], unk_token="[UNK]", show_progress=False
        ),
    )
    vocab = [tuple(v) for v in json.loads(t.to_str())["model"]["vocab"]]
    return DebertaV2Tokenizer(vocab=vocab).backend_tokenizer


tokens.write(here / "tokenizer", make)
