package causallm_test

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
	"github.com/gotrainer/gotrainer/models/causallm"
	"github.com/gotrainer/gotrainer/models/llama"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// A small Llama with random weights learns to translate numbers. In evaluations it continues the
// prompts of the samples.
func Example() {
	words := strings.Fields("zero one two three four five six seven eight nine")
	foreign := strings.Fields("null eins zwei drei vier fünf sechs sieben acht neun")
	type pair struct{ Prompt, Completion string }
	var pairs []pair
	var texts []string
	for n := range 100 {
		p := pair{words[n/10] + " " + words[n%10] + ":", " " + foreign[n/10] + " " + foreign[n%10]}
		pairs = append(pairs, p)
		texts = append(texts, p.Prompt+p.Completion)
	}
	tok, err := text.TrainByteLevel(slices.Values(texts), text.TrainOptions{VocabSize: 400})
	check(err)
	end, _ := tok.TokenToID("<|endoftext|>")
	torch.ManualSeed(1)
	lm, err := auto.NewCausalLM(llama.Config{VocabSize: int64(tok.VocabSize()), HiddenSize: 64, IntermediateSize: 128,
		NumLayers: 2, NumHeads: 4, MaxPositions: 64, EOSTokenIDs: []int64{end}}, tok)
	check(err)

	write, err := lm.Writer(auto.Generation{MaxNewTokens: 8})
	check(err)
	task, err := causallm.NewTask(lm, causallm.TaskOptions{Write: write,
		Metrics: []metrics.Metric[string]{&metrics.ExactMatch{}}})
	check(err)
	step, err := engine.New(task, engine.Options{Optimizer: optim.AdamW{LR: 3e-3}})
	check(err)
	dir, err := os.MkdirTemp("", "causallm")
	check(err)
	defer os.RemoveAll(dir)
	t, err := trainer.New(step, trainer.Options{OutputDir: dir, Epochs: 30, BatchSize: 10, Progress: io.Discard,
		Save: trainer.Never})
	check(err)
	encode := func(p pair) (causallm.Sample, error) { return lm.EncodeCompletion(p.Prompt, p.Completion) }
	train, held, err := data.Split(data.Map(data.Slice[pair](pairs), encode), 0.9, 1)
	check(err)
	result, err := t.Fit(context.Background(), train, held)
	check(err)
	fmt.Println("above 80 %:", result.Best.Metrics["eval_exact_match"] > 0.8)
	written, err := lm.Generate(context.Background(), "seven two:", auto.Generation{})
	check(err)
	fmt.Println("seven two:" + written)
	// Output:
	// above 80 %: true
	// seven two: sieben zwei
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
