package engine_test

import (
	"context"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/internal/ranktest"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// badSample is a sample that only the batch of one process has.
const badSample = 14

// badBatch is a task in which something happens to the batch with badSample.
type badBatch struct {
	towerTask
	happens func(loss torch.Tensor) torch.Tensor
}

func (t badBatch) Loss(p engine.ForwardPass, b []int) engine.Loss {
	l := t.towerTask.Loss(p, b)
	if slices.Contains(b, badSample) {
		l.Value = t.happens(l.Value)
	}
	return l
}

// inOneBatch trains on three processes until happens is called on one of them, the culprit, which
// waits there until the others have ended.
func inOneBatch(t *testing.T, happens func(torch.Tensor) torch.Tensor) (errs []error, culprit int) {
	t.Helper()
	testenv.RequireTorch(t)
	var others sync.WaitGroup
	others.Add(2)
	errs = ranktest.Together(t, 3, nil, func(ctx context.Context, g *dist.Group) error {
		m, here := newTower(), false
		m.drop.SetTraining(false)
		task := badBatch{towerTask{new(towerRun), m}, func(loss torch.Tensor) torch.Tensor {
			here, culprit = true, g.Rank()
			return happens(loss)
		}}
		step, err := engine.New[int, []int](task, engine.Options{Optimizer: optim.AdamW{LR: 0.02}})
		if err != nil {
			return err
		}
		fit, err := trainer.New(step, quiet(trainer.Options{Group: g, BatchSize: 2, Epochs: 2,
			Order: data.Sequential{}}))
		if err != nil {
			return err
		}
		_, err = fit.Fit(ctx, numbers(0, 36), nil)
		if here {
			others.Wait()
		} else {
			others.Done()
		}
		return err
	})
	return errs, culprit
}

func TestAnErrorInTheBatchOfOneProcessEndsAllAndIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(torch.Tensor) torch.Tensor
		text    string
	}{
		"out of memory": {func(torch.Tensor) torch.Tensor {
			panic(torch.Errorf("MatMul", torch.ErrOutOfMemory, "no memory for 1 TB"))
		}, "torch: MatMul: no memory for 1 TB"},
		"an operator": {func(loss torch.Tensor) torch.Tensor { return loss.MatMul(torch.Ones(2, 3)) },
			"both arguments to matmul need to be at least 1D"},
	} {
		t.Run(name, func(t *testing.T) {
			errs, culprit := inOneBatch(t, c.happens)
			for rank, err := range errs {
				require.ErrorContains(t, err, c.text, "rank %d", rank)
				if rank == culprit {
					continue
				}
				var of *dist.Error
				require.ErrorAs(t, err, &of, "rank %d", rank)
				assert.Equal(t, culprit, of.Peer)
			}
		})
	}
}

func TestANaNInTheBatchOfOneProcessEndsAllBeforeTheUpdate(t *testing.T) {
	errs, culprit := inOneBatch(t, func(loss torch.Tensor) torch.Tensor { return loss.MulScalar(math.NaN()) })
	for rank, err := range errs {
		var bad *trainer.NonFiniteError
		if rank != culprit { // a process finds the mean of the gradients, or gets the culprit's error first
			require.ErrorContains(t, err, "NaN", "rank %d", rank)
			assert.ErrorContains(t, err, "after update 2, before the next update")
			continue
		}
		require.ErrorAs(t, err, &bad, "rank %d", rank)
		assert.Equal(t, 2, bad.GlobalStep)
		assert.True(t, bad.Origin.Loss, "%+v", bad.Origin)
		assert.Contains(t, bad.Samples, badSample)
	}
}
