"""Golden values from transformers' Wav2Vec2CTCTokenizer: python ctc.py writes ctc.json beside it.

For each of some vocabularies and settings: the files that save_pretrained writes, the ids of texts, and what ids are
decoded to, with the frames of letters and words.
"""

import json
import pathlib
import tempfile

import transformers
from transformers import Wav2Vec2CTCTokenizer

here = pathlib.Path(__file__).resolve().parent
LETTERS = ["<pad>", "<s>", "</s>", "<unk>", "|", *"ABCDEFGHIJKLMNOPQRSTUVWXYZ'"]
SMALL = [*"abcdehlorwü", "|", "[UNK]", "[PAD]"]
LONG = ["<pad>", "<unk>", "|", *"abcdo", "ch", "chh", "oo"]
VOCABULARIES = [
    (LETTERS, {}),
    (LETTERS, dict(do_lower_case=True)),
    (SMALL, dict(unk_token="[UNK]", pad_token="[PAD]")),
    (SMALL, dict(unk_token="[UNK]", pad_token="[PAD]", bos_token=None, eos_token=None)),
    (LONG, dict(replace_word_delimiter_char="_")),
    (LONG, dict(clean_up_tokenization_spaces=True)),
]
TEXTS = [
    "HELLO WORLD",
    "hello world",
    "",
    " ",
    "  leading and trailing  ",
    "a <unk> b<pad>c <s> d",
    "IT'S über",
    "chocho chh och a",
    "a|b | c",
    "o chh o",
]


def frames(n, seed):
    """Ids that repeat, as those of frames do"""
    ids = []
    for i in range(24):
        seed = (seed * 1103515245 + 12345) % 2**31
        ids += [(seed >> 8) % n] * (1 + (seed >> 20) % 3)
    return ids


out = dict(made_with=f"transformers {transformers.__version__}", tokenizers=[])
for tokens, settings in VOCABULARIES:
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "vocab.json").write_text(json.dumps({t: i for i, t in enumerate(tokens)}))
        tok = Wav2Vec2CTCTokenizer(folder / "vocab.json", **settings)
        tok.save_pretrained(folder)
        files = {f.name: json.loads(f.read_text()) for f in sorted(folder.iterdir())}
    entry = dict(settings=settings, files=files, size=len(tok), texts=[], frames=[])
    for text in TEXTS:
        ids = tok(text).input_ids
        entry["texts"].append(dict(text=text, ids=ids, labels=tok.decode(ids, group_tokens=False)))
    for seed in range(4):
        ids = [*frames(len(tok), seed), 0, 0]
        if seed == 3:
            ids = [4, 4, *ids[:9], 4, 4, 900]
        found = tok.decode(ids, output_char_offsets=True, output_word_offsets=True)
        entry["frames"].append(
            dict(
                ids=ids,
                text=tok.decode(ids),
                letters=[[c["char"], int(c["start_offset"]), int(c["end_offset"])] for c in found.char_offsets],
                words=[[c["word"], int(c["start_offset"]), int(c["end_offset"])] for c in found.word_offsets],
            )
        )
    out["tokenizers"].append(entry)
(here / "ctc.json").write_text(json.dumps(out, indent=0) + "\n")
