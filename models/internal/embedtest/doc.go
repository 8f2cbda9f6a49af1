// Package embedtest compares sentence embeddings of decoders, which packages sentence, auto and
// llama make together, with sentence-transformers 6.2. It has only tests; testdata/embed.py records
// the numbers.
package embedtest
