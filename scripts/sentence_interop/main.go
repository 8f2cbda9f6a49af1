// Command sentence_interop loads a model of sentence-transformers, encodes texts or scores pairs,
// and saves the model. It is the Go half of sentence_interop.py, which describes how to run both.
//
//	sentence_interop IN OUT
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/crossencoder"
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

// run reads texts.json or pairs.json from the model's folder, and writes numbers.json into the
// output folder.
func run(in, out string) error {
	torch.SetThreads(1)
	var texts []string
	err := read(in, "texts.json", &texts)
	work := func() ([][]float32, error) { return encode(in, out, texts) }
	if errors.Is(err, fs.ErrNotExist) {
		var pairs [][2]string
		err = read(in, "pairs.json", &pairs)
		work = func() ([][]float32, error) { return score(in, out, pairs) }
	}
	if err != nil {
		return err
	}
	numbers, err := work()
	if err != nil {
		return err
	}
	content, err := json.Marshal(numbers)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, "numbers.json"), content, 0o644)
}

func read(dir, name string, value any) error {
	content, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	return json.Unmarshal(content, value)
}

// encode returns the embeddings of texts and saves the model.
func encode(in, out string, texts []string) ([][]float32, error) {
	ctx := context.Background()
	m, err := sentence.Load(ctx, in, auto.Options{Warnings: io.Discard})
	if err != nil {
		return nil, err
	}
	embeddings, err := m.Encode(ctx, texts, sentence.EncodeOptions{})
	if err != nil {
		return nil, err
	}
	return embeddings, m.Save(out)
}

// score returns the scores of pairs and saves the model.
func score(in, out string, pairs [][2]string) ([][]float32, error) {
	ctx := context.Background()
	m, err := crossencoder.Load(ctx, in, auto.Options{Warnings: io.Discard})
	if err != nil {
		return nil, err
	}
	scores, err := m.Predict(ctx, pairs, crossencoder.PredictOptions{})
	if err != nil {
		return nil, err
	}
	return scores, m.Save(out)
}
