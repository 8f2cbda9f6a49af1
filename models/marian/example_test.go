package marian_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/metrics"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/marian"
	"github.com/gotrainer/gotrainer/models/seq2seq"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// A small model with random weights learns a few words by heart, in two languages. The code in front
// of a text says into which it is to be translated. For a model of files, auto.Seq2SeqLM takes the
// place of the first part.
func Example() {
	tok, err := text.LoadTokenizer("../../text/testdata/marian/shared") // source.spm, target.spm, vocab.json
	check(err)
	pad, _ := tok.TokenToID("<pad>")
	torch.ManualSeed(1)
	m, err := auto.NewSeq2SeqLM(marian.Config{VocabSize: int64(tok.VocabSize()), PadTokenID: &pad,
		DecoderStartTokenID: &pad, HiddenSize: 32, EncoderLayers: 1, DecoderLayers: 1, EncoderAttentionHeads: 2,
		DecoderAttentionHeads: 2, EncoderFFNDim: 64, DecoderFFNDim: 64, MaxPositions: 32, ActivationFunction: "swish",
		ScaleEmbedding: true, Dropout: new(0.0)}, tok)
	check(err)

	pairs := data.Slice[[2]string]{{">>fra<< the bus", "le bus"}, {">>fra<< a frog", "une grenouille"},
		{">>fra<< the frog", "la grenouille"}, {">>rus<< the bus", "автобус"}, {">>rus<< a frog", "лягушка"},
		{">>rus<< the toad", "жаба"}}
	samples := data.Map(pairs, func(p [2]string) (seq2seq.Sample, error) { return m.Encode(p[0], p[1]) })
	write, err := m.Writer(auto.Generation{NumBeams: 2, MaxNewTokens: 16})
	check(err)
	task, err := seq2seq.NewTask(m, seq2seq.TaskOptions{Write: write,
		Metrics: []metrics.Metric[string]{&metrics.BLEU{MaxOrder: 1}}})
	check(err)
	step, err := engine.New(task, engine.Options{Optimizer: optim.AdamW{LR: 1e-2}})
	check(err)
	dir, err := os.MkdirTemp("", "marian")
	check(err)
	defer os.RemoveAll(dir)
	t, err := trainer.New(step, trainer.Options{OutputDir: dir, Epochs: 60, BatchSize: 3, Progress: io.Discard,
		Save: trainer.Never})
	check(err)
	result, err := t.Fit(context.Background(), samples, samples)
	check(err)
	fmt.Printf("BLEU %.2f\n", result.Best.Metrics["eval_bleu"])
	for _, source := range []string{">>fra<< a frog", ">>rus<< a frog"} {
		written, err := m.Generate(context.Background(), source, auto.Generation{NumBeams: 2, MaxNewTokens: 16})
		check(err)
		fmt.Println(written)
	}
	// Output:
	// BLEU 1.00
	// une grenouille
	// лягушка
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
