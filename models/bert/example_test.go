package bert_test

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/models/bert"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// A model learns to distinguish texts that begin with token 7 from others. The saved model is then
// loaded with a new head.
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

// A batch is computed without its padding, and each layer computes query, key and value as one
// product: the loss is what it was.
func ExampleClassifier_SetPaddingFree() {
	torch.ManualSeed(1)
	model, err := bert.NewClassifier(bert.Config{VocabSize: 20, HiddenSize: 16, NumLayers: 2, NumHeads: 2,
		IntermediateSize: 32, MaxPositions: 8, HiddenDropout: new(0.0), AttentionDropout: new(0.0)})
	if err != nil {
		fmt.Println(err)
		return
	}
	task, err := classify.NewTask(model, classify.TaskOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	batch, err := task.Collate([]bert.Sample{{InputIDs: []int64{1, 5, 2}}, {InputIDs: []int64{1, 2}, Label: 1},
		{InputIDs: []int64{1, 6, 7, 8, 9, 10, 11, 2}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	measure := func() {
		tokens, _ := task.CountTokens(batch)
		loss := task.Loss(engine.ForwardPass{}, batch).Value.Item()
		fmt.Printf("%d tokens, loss %.4f\n", tokens, loss)
	}
	measure()
	model.SetPaddingFree(true)
	measure()
	model.FuseQKVProjections(true)
	measure()
	// Output:
	// 24 tokens, loss 0.6947
	// 13 tokens, loss 0.6947
	// 13 tokens, loss 0.6947
}

// An evaluation by length has the same outcome with less padding.
func Example_evaluationByLength() {
	var texts data.Slice[bert.Sample]
	for i := range 32 {
		texts = append(texts, bert.Sample{InputIDs: []int64{1, 5, 6, 7, 8, 9, 3, 2}[:2+3*(i%3)], Label: int64(i % 2)})
	}
	for _, sorted := range []bool{false, true} {
		torch.ManualSeed(1)
		model, err := bert.NewClassifier(bert.Config{VocabSize: 20, HiddenSize: 16, NumLayers: 1, NumHeads: 2,
			IntermediateSize: 32, MaxPositions: 8})
		if err != nil {
			fmt.Println(err)
			return
		}
		step, err := bert.NewStep(model, engine.Options{SortEvalByLength: sorted})
		if err != nil {
			fmt.Println(err)
			return
		}
		padding := &paddingCount{step: step}
		t, err := trainer.New(step, trainer.Options{EvalBatchSize: 8, Callbacks: []any{padding}, Progress: io.Discard})
		if err != nil {
			fmt.Println(err)
			return
		}
		m, err := t.Evaluate(context.Background(), texts)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("loss %.4f, accuracy %g, %d tokens of padding\n", m["loss"], m["accuracy"], padding.tokens)
	}
	// Output:
	// loss 0.6932, accuracy 0.5, 99 tokens of padding
	// loss 0.6932, accuracy 0.5, 27 tokens of padding
}

// paddingCount counts the padding of the batches of an evaluation.
type paddingCount struct {
	step   *bert.Step
	tokens int
}

func (p *paddingCount) EvalStep(r *trainer.Run) error {
	b := r.Batch().(bert.Batch)
	all, real := b.Tokens()
	p.tokens += int(all - real)
	return nil
}
