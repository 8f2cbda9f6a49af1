// Package normalizers has the normalizers of Hugging Face tokenizers: the steps that clean a text
// before it is cut into words.
//
// A normalizer changes a [String], which remembers for each byte which stretch of the original it
// stands for:
//
//	s := normalizers.NewString("Ünïcode")
//	n := normalizers.Sequence{normalizers.NFD{}, normalizers.StripAccents{}, normalizers.Lowercase{}}
//	n.Normalize(&s)
//	fmt.Println(s.Text(), s.Original(0, 1)) // unicode {0 2}
//
// # Exactness
//
// Each step does what the Rust library does, with the tables of Unicode that the library has for
// that step (they are of several versions) and with its way of following spans. Tests compare every
// code point and random texts with it.
//
// # tokenizer.json
//
// [Parse] reads the field "normalizer" of that file; the types write themselves back with
// encoding/json.
package normalizers
