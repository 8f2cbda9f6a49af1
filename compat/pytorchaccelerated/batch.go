package pytorchaccelerated

import (
	"fmt"
	"slices"

	"github.com/gotrainer/gotrainer/torch"
)

// Pair is the form of batches that the Trainer's own methods understand: batch[0] and batch[1] in
// Python.
type Pair interface {
	// Tensors returns the batch's tensors on a device. The first dimension of targets is the
	// number of samples.
	Tensors(device torch.Device) (inputs, targets torch.Tensor)
}

// Sample is a ready-made sample type: numbers as input, and a class or numbers as target.
type Sample struct {
	Inputs  []float32
	Shape   []int64   // of Inputs; nil: one dimension
	Class   int64     // the target if Targets is nil
	Targets []float32 // of a regression
}

// Batch is a batch of [Sample]s, in rows.
type Batch struct {
	Inputs  []float32
	Shape   []int64 // of one sample
	Rows    int
	Classes []int64   // nil in a regression
	Targets []float32 // nil if there are classes
}

var _ Pair = Batch{}

// Collate makes a batch of samples. They must have the same shape and the same kind of target.
func Collate(samples []Sample) (Batch, error) {
	first := samples[0]
	b := Batch{Shape: first.shape(), Rows: len(samples)}
	for i, s := range samples {
		switch {
		case !slices.Equal(s.shape(), b.Shape):
			return Batch{}, fmt.Errorf("sample %d of the batch has shape %v, but the first has %v", i, s.shape(),
				b.Shape)
		case len(s.Inputs) != elements(b.Shape):
			return Batch{}, fmt.Errorf("sample %d of the batch has %d inputs, but its shape is %v", i, len(s.Inputs),
				b.Shape)
		case len(s.Targets) != len(first.Targets):
			return Batch{}, fmt.Errorf("sample %d of the batch has %d targets, but the first has %d", i, len(s.Targets),
				len(first.Targets))
		}
		b.Inputs = append(b.Inputs, s.Inputs...)
		b.Targets = append(b.Targets, s.Targets...)
		if first.Targets == nil {
			b.Classes = append(b.Classes, s.Class)
		}
	}
	return b, nil
}

func (s Sample) shape() []int64 {
	if s.Shape == nil {
		return []int64{int64(len(s.Inputs))}
	}
	return s.Shape
}

func elements(shape []int64) int {
	n := int64(1)
	for _, size := range shape {
		n *= size
	}
	return int(n)
}

// Tensors implements [Pair]: inputs [rows, shape...], targets [rows] of classes or [rows, width].
func (b Batch) Tensors(device torch.Device) (inputs, targets torch.Tensor) {
	rows := int64(b.Rows)
	inputs = torch.From(b.Inputs, append([]int64{rows}, b.Shape...)...)
	if b.Classes != nil {
		targets = torch.From(b.Classes, rows)
	} else {
		targets = torch.From(b.Targets, rows, int64(len(b.Targets)/b.Rows))
	}
	return inputs.ToDevice(device), targets.ToDevice(device)
}
