package engine_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/run"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// crowded is a task whose forward pass requests more memory than any machine has if a batch has
// more rows than there is room for: libtorch's allocator refuses it.
type crowded struct {
	tagTask
	room    int
	refused int
}

func (t *crowded) Loss(p engine.ForwardPass, b tokenBatch) engine.Loss {
	loss := t.tagTask.Loss(p, b)
	if len(b.rows) > t.room {
		t.refused++
		torch.Zeros(1 << 50)
	}
	return loss
}

// After libtorch's own error the batches are halved, and the run has the bits of one configured
// with half the batch size and twice the accumulation.
func TestARunThatIsOutOfMemoryContinuesWithHalfTheBatch(t *testing.T) {
	testenv.RequireTorch(t)
	train, _ := hfData(golden.Load(t, "testdata/hf.safetensors"))
	train = train[:16]
	fit := func(room int, o trainer.Options) ([]torch.Named, *trainer.Result, int) {
		torch.SetThreads(1)
		torch.ManualSeed(5)
		task := &crowded{tagTask: tagTask{newTagger(0)}, room: room}
		s, err := engine.New[tokens, tokenBatch](task, engine.Options{})
		require.NoError(t, err)
		o.Epochs, o.Log = 3, trainer.Every(1, trainer.Update)
		tr, err := trainer.New(s, quiet(o))
		require.NoError(t, err)
		r, err := tr.Fit(t.Context(), train, nil)
		require.NoError(t, err)
		return append(nn.Params(task.model), s.Optimizer().State()...), r, task.refused
	}
	want, configured, _ := fit(2, trainer.Options{BatchSize: 2, Accumulate: 4})
	got, divided, refused := fit(2, trainer.Options{BatchSize: 4, Accumulate: 2, DivideOnOutOfMemory: true})
	assert.Equal(t, 1, refused, "it is not tried again")
	require.Len(t, divided.Warnings, 1)
	assert.Equal(t, "batches of 4 samples do not fit into memory after update 0: from here on each is trained in 2 "+
		"parts",
		divided.Warnings[0])
	assert.Equal(t, configured.GlobalStep, divided.GlobalStep)
	require.Len(t, got, len(want))
	for i, w := range want {
		golden.Bits(t, w.Name, got[i].Tensor, w.Tensor)
	}
	require.Len(t, divided.History, len(configured.History))
	for i, row := range configured.History {
		assert.InDelta(t, row["loss"], divided.History[i]["loss"], 1e-6, "the loss of row %d", i)
	}
}

// A single sample that does not fit ends the run with an error that can be recognised as one of
// memory.
func TestARunWhoseSampleDoesNotFitSaysSo(t *testing.T) {
	testenv.RequireTorch(t)
	train, _ := hfData(golden.Load(t, "testdata/hf.safetensors"))
	s, err := engine.New[tokens, tokenBatch](&crowded{tagTask: tagTask{newTagger(0)}}, engine.Options{})
	require.NoError(t, err)
	fit, err := trainer.New(s, quiet(trainer.Options{Epochs: 1, BatchSize: 4, DivideOnOutOfMemory: true}))
	require.NoError(t, err)
	_, err = fit.Fit(t.Context(), train, nil)
	require.ErrorIs(t, err, torch.ErrOutOfMemory)
	assert.Equal(t, run.OutOfMemory, run.CodeOf(err))
	assert.ErrorContains(t, err, "not even one sample fits into memory")
}
