package roberta_test

import (
	"fmt"
	"os"

	"github.com/gotrainer/gotrainer/models/roberta"
	"github.com/gotrainer/gotrainer/torch"
)

// Positions start after that of the padding token, so a text is shorter than MaxPositions. The saved
// model is loaded with another head.
func Example() {
	dir, err := os.MkdirTemp("", "roberta")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a scratch folder

	model, err := roberta.NewClassifier(roberta.Config{VocabSize: 20, HiddenSize: 16, NumLayers: 1, NumHeads: 2,
		IntermediateSize: 32, MaxPositions: 10})
	if err != nil {
		fmt.Println(err)
		return
	}
	logits := model.Forward(torch.From([]int64{0, 7, 5, 2, 0, 9, 2, 1}, 2, 4), torch.Tensor{}, torch.Tensor{})
	fmt.Println("at most", model.Limits().MaxLength, "tokens; logits", logits.Shape())
	if err := model.Save(dir); err != nil {
		fmt.Println(err)
		return
	}
	_, report, err := roberta.LoadClassifierWith(dir, roberta.LoadOptions{Head: roberta.Head{NumLabels: 3},
		InitMismatched: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(report)
	// Output:
	// at most 8 tokens; logits [2 2]
	// 23 tensors fit
	//   mismatched  classifier.out_proj.weight  want [3 16], found [2 16]
	//   mismatched  classifier.out_proj.bias    want [3], found [2]
	// newly initialized, to be trained: classifier.out_proj.weight, classifier.out_proj.bias
}
