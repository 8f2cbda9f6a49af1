package stepcount_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gotrainer/gotrainer/internal/stepcount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

func TestEveryReadOfATensorIsCounted(t *testing.T) {
	testenv.RequireTorch(t)
	x := torch.From([]float32{1, 2, 3})
	for name, c := range map[string]struct {
		f     func()
		reads int
	}{
		"Item":         {func() { x.Sum(0).Item() }, 1},
		"Values":       {func() { torch.Values[float32](x) }, 1},
		"Bytes":        {func() { x.Bytes() }, 1},
		"MaskedSelect": {func() { x.MaskedSelect(x.GtScalar(1)) }, 1},
		"NonZero":      {func() { torch.Call("aten::nonzero", x) }, 1},
		"Equal":        {func() { x.Equal(x) }, 1},
		"none":         {func() { x.Add(x).Mul(x) }, 0},
	} {
		got := stepcount.Of(t, c.f)
		assert.GreaterOrEqual(t, got.ReadBacks, c.reads, "%s: %v", name, got)
		assert.Equal(t, c.reads == 0, got.ReadBacks == 0, "%s: %v", name, got)
	}
}

func TestOperatorsAndUploadsAreCountedOnce(t *testing.T) {
	testenv.RequireTorch(t)
	w := torch.Ones(3, 3).RequiresGrad()
	step := func() {
		torch.Scope(func() {
			torch.From([]float32{1, 2, 3}).View(1, 3).Linear(w, torch.Tensor{}).Sum(0).Backward()
		})
	}
	step()
	once := stepcount.Of(t, step)
	more := stepcount.Of(t, func() { step(); step(); step() })
	each := more.Each(2, once)
	assert.Equal(t, 1, each.Uploads, each)
	assert.Zero(t, each.ReadBacks, each)
	assert.Equal(t, once.Operators, each.Operators, "%v", each)
	assert.Positive(t, each.Tensors)
	assert.Positive(t, each.Bytes)
}
