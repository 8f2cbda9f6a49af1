package torch_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

func TestAtIsAViewEvenOfTheWhole(t *testing.T) {
	testenv.RequireTorch(t)
	x := torch.Zeros(2, 3)
	for _, positions := range [][]torch.Index{{}, {torch.All}, {torch.Ellipsis}, {torch.Range(0, 2)}} {
		y := x.At(positions...)
		y.AddScalar_(1)
		y.Free()
	}
	assert.Equal(t, []float32{4, 4, 4, 4, 4, 4}, torch.Values[float32](x))
}

// As in Python, leading dimensions of size 1 of the value are ignored.
func TestSetAtTakesValuesWithLeadingOnes(t *testing.T) {
	testenv.RequireTorch(t)
	rows := torch.From([]int64{0, 1}, 2)
	for _, c := range []struct {
		value     torch.Tensor
		positions []torch.Index
		want      []float32
	}{
		{torch.Ones(1, 3), []torch.Index{0}, []float32{1, 1, 1, 0, 0, 0}},
		{torch.Ones(1, 1), []torch.Index{1, 2}, []float32{0, 0, 0, 0, 0, 1}},
		{torch.Ones(1, 1, 2), []torch.Index{rows, 0}, []float32{1, 0, 0, 1, 0, 0}},
		{torch.Ones(1), []torch.Index{torch.All}, []float32{1, 1, 1, 1, 1, 1}},
	} {
		x := torch.Zeros(2, 3)
		x.SetAt(c.value, c.positions...)
		assert.Equal(t, c.want, torch.Values[float32](x), "%v at %v", c.value.Shape(), c.positions)
	}
}
