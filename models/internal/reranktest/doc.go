// Package reranktest compares language models that score pairs of texts, which packages
// crossencoder, auto and llama make together, with sentence-transformers 6.2. It has only tests;
// testdata/rerank.py records the numbers.
package reranktest
