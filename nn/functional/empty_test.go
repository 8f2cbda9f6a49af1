package functional_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gotrainer/gotrainer/internal/testenv"
	f "github.com/gotrainer/gotrainer/nn/functional"
	"github.com/gotrainer/gotrainer/torch"
)

// libtorch's results for inputs without rows are wrong: PyTorch 2.11 crashes with a segmentation
// fault in the first case, and returns uninitialised memory in the others.
func TestNoRowsGiveNothingOrTheLossOfNothing(t *testing.T) {
	testenv.RequireTorch(t)
	x := torch.Zeros(0, 3).RequiresGrad()
	d := f.PDist(x, 2)
	if got := d.Shape(); len(got) != 1 || got[0] != 0 {
		t.Errorf("PDist of no rows has shape %v, want [0]", got)
	}
	d.Sum(torch.DefaultDType).Backward()
	if got := x.Grad().Shape(); len(got) != 2 || got[0] != 0 || got[1] != 3 {
		t.Errorf("the gradient has shape %v, want [0 3]", got)
	}

	target := torch.From([]int64{}, 0)
	for _, p := range []int64{1, 2} {
		if got := f.MultiMarginLoss(x, target, f.MultiMarginLossOptions{P: p}).Item(); !math.IsNaN(got) {
			t.Errorf("the mean of no losses is %v, want NaN as of every other loss", got)
		}
		if got := f.MultiMarginLoss(x, target, f.MultiMarginLossOptions{P: p, Reduction: f.Sum}).Item(); got != 0 {
			t.Errorf("the sum of no losses is %v, want 0", got)
		}
		if got := f.MultiMarginLoss(x, target, f.MultiMarginLossOptions{P: p,
			Reduction: f.None}).Shape(); len(got) != 1 || got[0] != 0 {
			t.Errorf("no losses have shape %v, want [0]", got)
		}
	}

	classes := torch.From([]int64{}, 0, 3)
	mean := f.MultiLabelMarginLoss(x, classes, f.Mean)
	assert.True(t, math.IsNaN(mean.Item()), "the mean of no losses is %v, want NaN", mean.Item())
	mean.Backward()
	assert.Zero(t, f.MultiLabelMarginLoss(x, classes, f.Sum).Item(), "the sum of no losses")
	assert.Equal(t, []int64{0}, f.MultiLabelMarginLoss(x, classes, f.None).Shape(), "no losses")
}
