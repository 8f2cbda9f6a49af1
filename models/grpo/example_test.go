package grpo_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/grpo"
	"github.com/gotrainer/gotrainer/models/llama"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// A small Llama learns, from random weights, to write vowels: the reward is the share of vowels
// among its bytes.
func Example() {
	prompts := strings.Fields("one two three four five six seven eight nine ten eleven twelve")
	tok, err := text.TrainByteLevel(slices.Values(prompts), text.TrainOptions{VocabSize: 270})
	check(err)
	end, _ := tok.TokenToID("<|endoftext|>")
	torch.ManualSeed(1)
	lm, err := auto.NewCausalLM(llama.Config{VocabSize: int64(tok.VocabSize()), HiddenSize: 32, IntermediateSize: 64,
		NumLayers: 2, NumHeads: 4, MaxPositions: 64, EOSTokenIDs: []int64{end}}, tok)
	check(err)

	vowels := func(c grpo.Completions) (rewards []float64, err error) {
		for _, s := range c.Texts {
			n := 0
			for _, vowel := range "aeiou" {
				n += strings.Count(s, string(vowel))
			}
			rewards = append(rewards, float64(n)/float64(max(1, len(s))))
		}
		return rewards, nil
	}
	task, err := lm.GRPOTask(grpo.TaskOptions{Rewards: []grpo.Reward{{Name: "vowels", Func: vowels}}, NumGenerations: 16,
		MaxCompletionLength: 8})
	check(err)
	step, err := engine.New(task, engine.Options{Optimizer: optim.AdamW{LR: 1e-2}})
	check(err)
	dir, err := os.MkdirTemp("", "grpo")
	check(err)
	defer os.RemoveAll(dir)
	t, err := trainer.New(step, trainer.Options{OutputDir: dir, MaxSteps: 60, BatchSize: 4, Order: task.Order(4, 42),
		Log: trainer.Every(1, trainer.Update), Save: trainer.Never, Progress: io.Discard})
	check(err)
	result, err := t.Fit(context.Background(), data.Map(data.Slice[string](prompts), lm.EncodePrompt), nil)
	check(err)
	first, last := result.History[0]["reward"], result.History[59]["reward"]
	fmt.Println("below 10 % at first:", first < 0.1)
	fmt.Println("above 80 % in the end:", last > 0.8)
	// Output:
	// below 10 % at first: true
	// above 80 % in the end: true
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
