package sft_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/llama"
	"github.com/gotrainer/gotrainer/models/sft"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// A small Llama learns what animals say.
func Example() {
	says := [][2]string{{"A cat", " purrs."}, {"A dog", " barks."}, {"A duck", " quacks."}, {"An owl", " hoots."}}
	words := func(yield func(string) bool) {
		for _, s := range says {
			if !yield(s[0]+s[1]) || !yield("<|endoftext|>") {
				return
			}
		}
	}
	tok, err := text.TrainByteLevel(words, text.TrainOptions{VocabSize: 270})
	check(err)
	end, _ := tok.TokenToID("<|endoftext|>")
	torch.ManualSeed(1)
	lm, err := auto.NewCausalLM(llama.Config{VocabSize: int64(tok.VocabSize()), HiddenSize: 32, IntermediateSize: 64,
		NumLayers: 2, NumHeads: 4, MaxPositions: 64, EOSTokenIDs: []int64{end}}, tok)
	check(err)

	task, err := lm.SFTTask(sft.TaskOptions{})
	check(err)
	step, err := engine.New(task, engine.Options{Optimizer: optim.AdamW{LR: 5e-3}})
	check(err)
	dir, err := os.MkdirTemp("", "sft")
	check(err)
	defer os.RemoveAll(dir)
	t, err := trainer.New(step, trainer.Options{OutputDir: dir, MaxSteps: 60, BatchSize: 4,
		Log: trainer.Every(60, trainer.Update), Save: trainer.Never, Progress: io.Discard})
	check(err)
	train := data.Map(data.Slice[[2]string](says), func(s [2]string) (sft.Sample, error) {
		return lm.EncodeCompletion(s[0], s[1]) // only the completion is learned
	})
	_, err = t.Fit(context.Background(), train, nil)
	check(err)
	metrics, err := t.Evaluate(context.Background(), train)
	check(err)
	fmt.Println("tokens that it would write itself:", metrics["mean_token_accuracy"])
	answers, err := lm.GenerateBatch(context.Background(), []string{"A cat", "An owl"}, auto.Generation{MaxNewTokens: 20})
	check(err)
	fmt.Printf("%q\n", answers)
	// Output:
	// tokens that it would write itself: 1
	// [" purrs." " hoots."]
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
