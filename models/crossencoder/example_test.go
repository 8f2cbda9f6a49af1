package crossencoder_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/crossencoder"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// newModel makes a small model of random weights, whose vocabulary is the words of texts. Programs
// name a model of the Hub in crossencoder.Load instead.
func newModel(dir string, texts ...string) *crossencoder.CrossEncoder {
	vocab := map[string]int64{}
	for _, word := range append([]string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}, strings.Fields(strings.Join(texts,
		" "))...) {
		if _, known := vocab[word]; !known {
			vocab[word] = int64(len(vocab))
		}
	}
	tok, err := text.NewBert(vocab, text.BertOptions{})
	check(err)
	check(tok.Save(dir))
	config := fmt.Sprintf(`{"model_type": "bert", "vocab_size": %d, "hidden_size": 32, "num_hidden_layers": 1,
		"num_attention_heads": 2, "intermediate_size": 64, "max_position_embeddings": 24, "initializer_range": 0.1}`, len(vocab))
	check(os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600))
	torch.ManualSeed(1)
	m, err := crossencoder.Load(context.Background(), dir, auto.Options{FromConfig: true})
	check(err)
	return m
}

// A model learns which answer belongs to which question, and then ranks the answers to a question.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "crossencoder")
	check(err)
	defer os.RemoveAll(dir) //nolint:errcheck // a scratch folder
	questions := []string{"where is my parcel", "how do i return shoes", "can i pay by card", "when do you open"}
	answers := []string{"your order is on its way", "send them back within a month", "we take visa and cash",
		"our shop is there from nine to five"}
	m := newModel(dir, append(questions, answers...)...)

	var pairs []crossencoder.Sample
	for i, question := range questions {
		for k, answer := range answers {
			pair := crossencoder.Sample{Query: question, Documents: []string{answer}, Labels: []float32{0}}
			if i == k {
				pair.Labels[0] = 1
			}
			pairs = append(pairs, pair)
		}
	}
	task, err := crossencoder.NewTask(m, crossencoder.TaskOptions{Loss: crossencoder.BinaryCrossEntropyLoss{PosWeight: 3}})
	check(err)
	step, err := engine.New(task, engine.Options{Optimizer: optim.AdamW{LR: 5e-3}})
	check(err)
	t, err := trainer.New(step, trainer.Options{Epochs: 60, Save: trainer.Never, Progress: io.Discard})
	check(err)
	_, err = t.Fit(ctx, data.Slice[crossencoder.Sample](pairs), nil)
	check(err)
	check(m.Save(filepath.Join(dir, "model"))) // for sentence-transformers, too

	m, err = crossencoder.Load(ctx, filepath.Join(dir, "model"), auto.Options{})
	check(err)
	ranking, err := m.Rank(ctx, questions[1], answers, crossencoder.RankOptions{TopK: 2})
	check(err)
	fmt.Println(ranking[0].Text)
	fmt.Println(ranking[0].Score > 0.5, ranking[1].Score > 0.5)
	// Output:
	// send them back within a month
	// true false
}
