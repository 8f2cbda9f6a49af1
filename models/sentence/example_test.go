package sentence_test

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
	"github.com/gotrainer/gotrainer/models/sentence"
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

// newEncoder makes a small encoder of random weights, whose vocabulary is the words of texts. Programs
// name a model of the Hub in sentence.Load instead.
func newEncoder(dir string, texts ...string) *auto.EncoderModel {
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
		"num_attention_heads": 2, "intermediate_size": 64, "max_position_embeddings": 16, "initializer_range": 0.1}`, len(vocab))
	check(os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600))
	torch.ManualSeed(1)
	encoder, err := auto.Encoder(context.Background(), dir, auto.Options{FromConfig: true})
	check(err)
	return encoder
}

// A model learns which answer belongs to which question, and then searches the answers.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "sentence")
	check(err)
	defer os.RemoveAll(dir) //nolint:errcheck // a scratch folder
	questions := []string{"where is my parcel", "how do i return shoes", "can i pay by card", "when do you open"}
	answers := []string{"your order is on its way", "send them back within a month", "we take visa and cash",
		"our shop is there from nine to five"}
	m, err := sentence.New(newEncoder(dir, append(questions, answers...)...), sentence.Pooling{}, sentence.Normalize{})
	check(err)

	var pairs []sentence.Sample
	for i := range questions {
		pair, err := m.Sample(questions[i], answers[i])
		check(err)
		pairs = append(pairs, pair)
	}
	task, err := sentence.NewTask(m, sentence.TaskOptions{Loss: sentence.MultipleNegativesRankingLoss{}})
	check(err)
	step, err := engine.New(task, engine.Options{Optimizer: optim.AdamW{LR: 5e-3}})
	check(err)
	t, err := trainer.New(step, trainer.Options{Epochs: 30, Save: trainer.Never, Progress: io.Discard})
	check(err)
	_, err = t.Fit(ctx, data.Slice[sentence.Sample](pairs), nil)
	check(err)
	check(m.Save(filepath.Join(dir, "model"))) // for sentence-transformers, too

	m, err = sentence.Load(ctx, filepath.Join(dir, "model"), auto.Options{})
	check(err)
	corpus, err := m.EncodeDocument(ctx, answers, sentence.EncodeOptions{})
	check(err)
	asked, err := m.EncodeQuery(ctx, []string{"can i return my shoes"}, sentence.EncodeOptions{})
	check(err)
	scores, err := m.Similarity(asked, corpus)
	check(err)
	best := 0
	for i, score := range scores[0] {
		if score > scores[0][best] {
			best = i
		}
	}
	fmt.Println(answers[best])
	// Output: send them back within a month
}
