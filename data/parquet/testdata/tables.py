"""Writes small Parquet files with pyarrow: what the readers of this package must take, and what it must refuse by name."""

import json
import pathlib

import pyarrow as pa
import pyarrow.parquet as pq

here = pathlib.Path(__file__).parent
n = 10
texts = [f"row {i} گ" if i % 3 else "the same text" for i in range(n)]
table = pa.table(
    {
        "text": texts,
        "label": pa.array([i % 2 for i in range(n)], pa.int64()),
        "small": pa.array([i - 5 for i in range(n)], pa.int8()),
        "large": pa.array([2**63 + i for i in range(n)], pa.uint64()),
        "score": pa.array([None if i == 4 else i / 4 for i in range(n)], pa.float32()),
        "exact": pa.array([i / 3 for i in range(n)], pa.float64()),
        "flag": pa.array([i % 3 == 0 for i in range(n)], pa.bool_()),
        "ids": pa.array([list(range(i % 4)) for i in range(n)], pa.list_(pa.int32())),
        "words": pa.array([None if i == 2 else ["a", "b" * i] for i in range(n)], pa.list_(pa.string())),
        "image": pa.array([bytes([i, 255]) for i in range(n)], pa.binary()),
    }
)
for name, options in {
    "plain": {"compression": "none", "use_dictionary": False},
    "snappy": {"compression": "snappy", "row_group_size": 3},
    "zstd_v2": {"compression": "zstd", "row_group_size": 4, "data_page_version": "2.0"},
    "gzip": {"compression": "gzip", "row_group_size": 100},
}.items():
    pq.write_table(table, here / f"{name}.parquet", **options)
nested = pa.table(
    {
        "text": ["a"],
        "answer": pa.array([{"start": 1, "end": 2}]),
        "pairs": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32())),
        "matrix": pa.array([[[1], [2, 3]]]),
        "price": pa.array([None], pa.decimal128(9, 2)),
        "day": pa.array([0], pa.timestamp("us")),
        "holes": pa.array([[1, None]], pa.list_(pa.int32())),
    }
)
pq.write_table(nested, here / "nested.parquet")
# as the library datasets writes pictures and classes
features = {"image": {"_type": "Image"}, "label": {"names": ["no", "yes"], "_type": "ClassLabel"}}
pictures = pa.table(
    {
        "image": pa.array(
            [{"bytes": b"PNG 0", "path": "a.png"}, {"bytes": None, "path": "b.png"}, None],
            pa.struct([("bytes", pa.binary()), ("path", pa.string())]),
        ),
        "label": pa.array([1, 0, 1], pa.int64()),
    }
)
pq.write_table(
    pictures.replace_schema_metadata({"huggingface": '{"info": ' + json.dumps({"features": features}) + "}"}),
    here / "pictures.parquet",
)
