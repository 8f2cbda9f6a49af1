package bert_test

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/models/bert"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// A model learns to tell texts that begin with token 7 from others; what it saved is loaded with a
// new head.
func Example() {
	dir, err := os.MkdirTemp("", "bert")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a scratch folder

	torch.ManualSeed(1)
	model, err := bert.NewClassifier(bert.Config{
		VocabSize: 20, HiddenSize: 16, NumLayers: 1, NumHeads: 2, IntermediateSize: 32, MaxPositions: 8,
		Head: bert.Head{ID2Label: []string{"other", "seven"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	var samples data.Slice[bert.Sample]
	for i := range int64(64) {
		s := bert.Sample{InputIDs: []int64{7, 1 + i%19, 1 + i%5}, Label: 1}
		if i%2 == 0 {
			s = bert.Sample{InputIDs: []int64{8 + i%12, 7}, Label: 0}
		}
		samples = append(samples, s)
	}
	step, err := bert.NewStep(model, engine.Options{Optimizer: optim.AdamW{LR: 5e-3}})
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
	fmt.Println("accuracy", result.History[len(result.History)-2]["eval_accuracy"])

	if err := model.Save(dir); err != nil {
		fmt.Println(err)
		return
	}
	_, report, err := bert.LoadClassifierWith(dir, bert.LoadOptions{Head: bert.Head{NumLabels: 3},
		InitMismatched: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(report)
	// Output:
	// accuracy 1
	// 23 tensors fit
	//   mismatched  classifier.weight  want [3 16], found [2 16]
	//   mismatched  classifier.bias    want [3], found [2]
	// newly initialized, to be trained: classifier.weight, classifier.bias
}
