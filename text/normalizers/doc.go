// Package normalizers has the normalizers of Hugging Face tokenizers: the steps that clean a text
// before it is split into words.
//
// A normalizer changes a [String], which remembers for each byte which part of the original it
// stands for:
//
//	s := normalizers.NewString("Ünïcode")
//	n := normalizers.Sequence{normalizers.NFD{}, normalizers.StripAccents{}, normalizers.Lowercase{}}
//	n.Normalize(&s)
//	fmt.Println(s.Text(), s.Original(0, 1)) // unicode {0 2}
//
// # Exactness
//
// Each step does what the Rust library does. It uses the Unicode tables that the library has for
// that step (they are of several versions) and tracks spans in the same way. Tests compare every
// code point, and random texts, with the library.
//
// # tokenizer.json
//
// [Parse] reads the field "normalizer" of that file; the types write themselves back with
// encoding/json.
package normalizers
