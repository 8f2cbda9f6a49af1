package classify_test

import (
	"fmt"

	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// bag is the smallest model of texts: the mean of the tokens' embeddings, which are the logits.
type bag struct {
	Embedding *nn.Embedding `module:"embedding"`
}

func (b *bag) Forward(ids, mask, _ torch.Tensor) torch.Tensor {
	x := b.Embedding.Forward(ids)
	if mask.Defined() {
		x = x.Mul(mask.Unsqueeze(2))
	}
	return x.MeanDim([]int64{1}, false, torch.DefaultDType)
}
func (b *bag) Head() classify.Head {
	return classify.Head{NumLabels: 2, ProblemType: classify.SingleLabel}
}
func (b *bag) Limits() classify.Limits  { return classify.Limits{VocabSize: 10, MaxLength: 4} }
func (b *bag) WriteConfig(string) error { return nil }

// Whatever computes logits of texts is trained and judged like BERT: the task makes batches, the
// loss and the metrics.
func Example() {
	step, err := classify.NewStep(&bag{nn.NewEmbedding(10, 2, nil)}, classify.TaskOptions{}, engine.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	batch, err := step.Collate([]classify.Sample{{InputIDs: []int64{5, 6, 7}, Label: 1}, {InputIDs: []int64{8},
		Label: 0}})
	fmt.Println(batch.InputIDs.Values, batch.AttentionMask.Values, batch.Labels, err)
	_, err = step.Collate([]classify.Sample{{InputIDs: []int64{5, 12}}})
	fmt.Println(err)
	// Output:
	// [5 6 7 8 0 0] [1 1 1 1 0 0] [1 0] <nil>
	// classify: sample 0 of the batch: token 1 has the id 12, but the vocabulary of the model has 10: is the tokenizer that of the model?
}
