package kto_test

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
	"github.com/gotrainer/gotrainer/models/kto"
	"github.com/gotrainer/gotrainer/models/llama"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/text/chat"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// A small Llama learns which of some answers are good, each rated on its own.
func Example() {
	const rated = `{"prompt": "A cat", "completion": " purrs", "label": true}
{"prompt": "A cat", "completion": " barks", "label": false}
{"prompt": "A dog", "completion": " barks", "label": true}
{"prompt": "A dog", "completion": " purrs", "label": false}`
	list, err := chat.ReadUnpairedPreferences(strings.NewReader(rated))
	check(err)
	tok, err := text.TrainByteLevel(slices.Values(strings.Fields(rated)), text.TrainOptions{VocabSize: 270})
	check(err)
	end, _ := tok.TokenToID("<|endoftext|>")
	torch.ManualSeed(1)
	lm, err := auto.NewCausalLM(llama.Config{VocabSize: int64(tok.VocabSize()), HiddenSize: 32, IntermediateSize: 64,
		NumLayers: 2, NumHeads: 4, MaxPositions: 64, EOSTokenIDs: []int64{end}}, tok)
	check(err)

	task, err := lm.KTOTask(kto.TaskOptions{})
	check(err)
	step, err := engine.New(task, engine.Options{Optimizer: optim.AdamW{LR: 3e-3}})
	check(err)
	dir, err := os.MkdirTemp("", "kto")
	check(err)
	defer os.RemoveAll(dir)
	t, err := trainer.New(step, trainer.Options{OutputDir: dir, MaxSteps: 60, BatchSize: 4,
		Log: trainer.Every(60, trainer.Update), Save: trainer.Never, Progress: io.Discard})
	check(err)
	train := data.Map(data.Slice[chat.UnpairedPreference](list), lm.EncodeUnpairedPreference)
	_, err = t.Fit(context.Background(), train, nil)
	check(err)
	metrics, err := t.Evaluate(context.Background(), train)
	check(err)
	fmt.Println("good answers have become more probable:", metrics["rewards/chosen"] > 0)
	fmt.Println("bad ones less:", metrics["rewards/rejected"] < 0)
	// Output:
	// good answers have become more probable: true
	// bad ones less: true
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
