package seq2seq_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/metrics"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/seq2seq"
	"github.com/gotrainer/gotrainer/models/t5"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// A small T5 with random weights learns to translate numbers. In evaluations it generates texts.
func Example() {
	words := strings.Fields("zero one two three four five six seven eight nine")
	foreign := strings.Fields("null eins zwei drei vier fünf sechs sieben acht neun")
	var texts []string
	type pair struct{ English, German string }
	var pairs []pair
	for n := range 100 {
		p := pair{words[n/10] + " " + words[n%10], foreign[n/10] + " " + foreign[n%10]}
		pairs = append(pairs, p)
		texts = append(texts, p.English, p.German)
	}
	tok, err := text.TrainByteLevel(slices.Values(texts), text.TrainOptions{VocabSize: 400,
		SpecialTokens: []string{"<pad>", "</s>"}})
	check(err)
	torch.ManualSeed(1)
	m, err := auto.NewSeq2SeqLM(t5.Config{VocabSize: int64(tok.VocabSize()), HiddenSize: 64, KeyValueSize: 16,
		FeedForwardSize: 128, NumLayers: 2, NumHeads: 4, Dropout: new(0.0)}, tok)
	check(err)

	write, err := m.Writer(auto.Generation{MaxNewTokens: 8})
	check(err)
	task, err := seq2seq.NewTask(m, seq2seq.TaskOptions{Write: write,
		Metrics: []metrics.Metric[string]{&metrics.ExactMatch{}}})
	check(err)
	step, err := engine.New(task, engine.Options{Optimizer: optim.AdamW{LR: 3e-3}})
	check(err)
	dir, err := os.MkdirTemp("", "seq2seq")
	check(err)
	defer os.RemoveAll(dir)
	t, err := trainer.New(step, trainer.Options{OutputDir: dir, Epochs: 40, BatchSize: 10, Progress: io.Discard,
		Save: trainer.Never})
	check(err)
	encode := func(p pair) (seq2seq.Sample, error) { return m.Encode(p.English, p.German) }
	train, held, err := data.Split(data.Map(data.Slice[pair](pairs), encode), 0.9, 1)
	check(err)
	result, err := t.Fit(context.Background(), train, held)
	check(err)
	fmt.Println("above 80 %:", result.Best.Metrics["eval_exact_match"] > 0.8)
	written, err := m.Generate(context.Background(), "seven two", auto.Generation{})
	check(err)
	fmt.Println(written)
	// Output:
	// above 80 %: true
	// sieben zwei
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
