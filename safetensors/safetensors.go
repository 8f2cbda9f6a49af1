// Package safetensors reads and writes Hugging Face's safetensors files: named tensors as raw bytes
// behind a JSON header, with nothing in them that could run.
//
//	f, err := safetensors.Open("model.safetensors")
//	defer f.Close()
//	for _, t := range f.Tensors() {
//		fmt.Println(t.Name, t.DType, t.Shape)
//	}
//	err = f.ReadInto("embedding.weight", buffer)
//
//	err = safetensors.WriteFile("out.safetensors", []safetensors.Entry{
//		{Name: "w", DType: safetensors.F32, Shape: []int64{2, 3}, Data: safetensors.Bytes(raw)},
//	}, map[string]string{"format": "pt"})
//
// Neither direction holds more than the header and one buffer in memory. Elements are little-endian
// and in C order; this package moves them as bytes.
//
// # The format
//
// Eight bytes give the length of the header, little-endian. The header is a JSON object: each key a
// tensor's name with its dtype, shape and the range of its bytes behind the header; the key
// __metadata__, if there, holds strings by name. The ranges cover the rest of the file exactly: no
// holes, no overlap, nothing behind the last one.
//
// # How strict the reader is
//
// A file that this package reads is one that the Rust crate behind the Python package (version 0.8)
// reads, and the error table is the crate's. Beyond the crate, which keeps the last of two equal
// keys and skips what it does not know, duplicate keys and unknown fields are refused: a file must
// not mean two things to two readers. Numbers of a shape beyond 2^63-1 are refused as well, and so
// are more than [MaxTensors] tensors or [MaxDims] dimensions, so that a header takes no more than
// 64 MB of memory besides its text.
//
// # What the writer writes
//
// Byte for byte what the Python package writes for the same tensors: sorted by dtype, the widest
// first, then by name; header padded with spaces to a multiple of eight. With several metadata
// keys, which Python writes in random order, they are sorted.
package safetensors
