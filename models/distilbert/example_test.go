package distilbert_test

import (
	"context"
	"fmt"
	"io"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/models/distilbert"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// A model learns to distinguish texts that begin with token 7 from others. It has no token types:
// samples are ids and a label.
func Example() {
	torch.ManualSeed(1)
	model, err := distilbert.NewClassifier(distilbert.Config{
		VocabSize: 20, Dim: 16, NumLayers: 1, NumHeads: 2, HiddenDim: 32, MaxPositions: 8,
		Head: distilbert.Head{ID2Label: []string{"other", "seven"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	var samples data.Slice[distilbert.Sample]
	for i := range int64(32) {
		samples = append(samples, distilbert.Sample{InputIDs: []int64{7, 1 + i%19, 1 + i%5}, Label: 1},
			distilbert.Sample{InputIDs: []int64{8 + i%12, 7}, Label: 0})
	}
	step, err := distilbert.NewStep(model, engine.Options{Optimizer: optim.AdamW{LR: 5e-3}})
	if err != nil {
		fmt.Println(err)
		return
	}
	t, err := trainer.New(step, trainer.Options{Epochs: 5, Save: trainer.Never, Progress: io.Discard})
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := t.Fit(context.Background(), samples, samples)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("accuracy", result.Best.Metrics["eval_accuracy"])
	// Output: accuracy 1
}
