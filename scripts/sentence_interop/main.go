// Command sentence_interop loads a sentence-transformers model, encodes texts and saves the model.
// It is the Go half of sentence_interop.py, which describes how to run both.
//
//	sentence_interop IN OUT
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/sentence"
	"github.com/gotrainer/gotrainer/torch"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: sentence_interop IN OUT")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "sentence_interop:", err)
		os.Exit(1)
	}
}

// run reads texts.json from the model's folder, and writes embeddings.json into the output folder.
func run(in, out string) error {
	torch.SetThreads(1)
	ctx := context.Background()
	m, err := sentence.Load(ctx, in, auto.Options{Warnings: io.Discard})
	if err != nil {
		return err
	}
	content, err := os.ReadFile(filepath.Join(in, "texts.json"))
	if err != nil {
		return err
	}
	var texts []string
	if err := json.Unmarshal(content, &texts); err != nil {
		return err
	}
	embeddings, err := m.Encode(ctx, texts, sentence.EncodeOptions{})
	if err != nil {
		return err
	}
	if err := m.Save(out); err != nil {
		return err
	}
	if content, err = json.Marshal(embeddings); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, "embeddings.json"), content, 0o644)
}
