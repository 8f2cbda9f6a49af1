package loops

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/semantics"
)

func TestProgressIsOneLineWhereThereIsNoTerminal(t *testing.T) {
	var out bytes.Buffer
	p := NewProgress(&out, "validation ", 4)
	p.Add()
	p.Add()
	assert.Empty(t, out.String())
	p.End()
	assert.Equal(t, "validation  50%|██████████          | 2/4\n", out.String())
	p = nil
	p.Add()
	p.Show(1)
	p.End()
}

func TestMomentumNeedsAnOptimizerThatHasOne(t *testing.T) {
	testenv.RequireTorch(t)
	params := []optim.Group{{Params: nn.Params(nn.NewLinear(1, 1, nil))}}
	sgd, err := optim.SGD{LR: 1, Momentum: 0.5}.Build(params)
	require.NoError(t, err)
	cycle := lr.OneCycleLR{MaxLR: 1, TotalSteps: 10}
	set, err := PlanMomentum(cycle, sgd, 10)
	require.NoError(t, err)
	require.NoError(t, set.Set(0))
	adagrad, err := optim.Adagrad{LR: 1}.Build(params)
	require.NoError(t, err)
	set, err = PlanMomentum(cycle, adagrad, 10)
	require.NoError(t, err)
	assert.Error(t, set.Set(0), "it has no momentum")
	_, err = PlanMomentum(cycle, struct{ optim.Optimizer }{adagrad}, 10)
	assert.ErrorContains(t, err, "FixedMomentum")
	set, err = PlanMomentum(lr.Constant{}, adagrad, 10)
	require.NoError(t, err)
	assert.NoError(t, set.Set(0))
}

func TestScopedMakesErrorsOfPanics(t *testing.T) {
	testenv.RequireTorch(t)
	want := errors.New("mine")
	assert.ErrorIs(t, Scoped(func() error { return want }), want)
	assert.Error(t, Scoped(func() error { torch.Ones(2).MatMul(torch.Ones(3)); return nil }))
}

// counting counts batches, and fails at one of them.
type counting struct {
	Step[int]
	batches, updates int
	fail             error
}

func (c *counting) Train(context.Context, int, trainer.Window) error {
	c.batches++
	return c.fail
}

func (c *counting) Update(context.Context, float64) (applied bool, err error) {
	c.updates++
	return true, nil
}

// numbers yields the batches 0, 1, ...
type numbers int

func (n numbers) Len() int { return int(n) }

func (n numbers) Epoch(_ context.Context, _, skip int) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		for i := skip; i < int(n) && yield(i, nil); i++ {
		}
	}
}

func TestFitRunsTheLoopOverTheBatchesOfTheStep(t *testing.T) {
	s := &counting{}
	s.Batches = numbers(3)
	o := trainer.Options{Epochs: 2, Accumulate: 3, LearningRate: 1, Semantics: semantics.Rules{}, Save: trainer.Never}
	require.NoError(t, Fit(context.Background(), nil, s, 3, o))
	assert.Equal(t, 6, s.batches)
	assert.Equal(t, 2, s.updates)
	s.fail = errors.New("at a batch")
	assert.Equal(t, s.fail, Cause(Fit(context.Background(), nil, s, 3, o)), "the error is that of the step")
	_, err := s.Collate(nil)
	assert.Error(t, err)
}

func TestAllSetLeavesNoSwitchOut(t *testing.T) {
	type rules struct{ A, B, C bool }
	assert.Equal(t, rules{true, true, true}, AllSet[rules]())
}
