// Package sbert has what the folders of sentence-transformers have in common, whatever the model:
// the list of modules, the settings of the encoder, prompts, and activation functions by the names
// of their classes. Packages sentence and crossencoder share it.
package sbert
