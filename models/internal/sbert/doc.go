// Package sbert has what the folders of sentence-transformers have in common, whatever the model:
// the list of modules, the settings of the encoder, prompts, activation functions by the names of
// their classes, and names of metrics. Packages sentence and crossencoder share it.
package sbert
