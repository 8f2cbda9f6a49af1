// Package safetensors reads and writes Hugging Face's safetensors files: named tensors as raw bytes
// after a JSON header, with nothing in them that could be executed.
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
// Reading and writing hold only the header and one buffer in memory. Elements are little-endian and
// in C order; this package moves them as bytes.
//
// # The format
//
// Eight bytes give the length of the header, little-endian. The header is a JSON object: each key
// is the name of a tensor, with its dtype, its shape and the range of its bytes after the header.
// The key __metadata__, if present, holds strings by name. The ranges cover the rest of the file
// exactly: no holes, no overlap, nothing after the last one.
//
// # How strict the reader is
//
// Every file that this package reads, the Rust crate behind the Python package (version 0.8) reads
// too, and the error table is the crate's. This package is stricter: the crate keeps the last of
// two equal keys and skips what it does not know, while here duplicate keys and unknown fields are
// refused, because a file must not mean two things to two readers. Shapes with numbers beyond
// 2^63-1 are refused as well. So are more than [MaxTensors] tensors or [MaxDims] dimensions, so
// that a header takes at most 64 MB of memory besides its text.
//
// # What the writer writes
//
// Byte for byte what the Python package writes for the same tensors: sorted by dtype, the widest
// first, then by name, with the header padded with spaces to a multiple of eight. Metadata keys are
// sorted; Python writes several of them in random order.
package safetensors
