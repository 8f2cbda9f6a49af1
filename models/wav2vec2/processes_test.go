package wav2vec2_test

import (
	"context"
	"io"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/internal/ranktest"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/ctc"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/optim"
	exit "github.com/gotrainer/gotrainer/run"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// spoken are samples of different lengths.
func spoken() (samples data.Slice[ctc.Sample]) {
	for i := range 16 {
		values := make([]float32, 400+20*i)
		for k := range values {
			values[k] = float32((k*(i+3))%7) - 3
		}
		samples = append(samples, ctc.Sample{Waveform: inputs.Waveform{Values: values}, Labels: []int64{int64(1 + i%4), 5}})
	}
	return samples
}

// Two processes train one model, though each drops other layers (LayerDrop) and masks other frames.
func TestTwoProcessesTrainOneModel(t *testing.T) {
	testenv.RequireTorch(t)
	samples := spoken()
	config := small
	config.NumLayers, config.VocabSize, config.PadTokenID, config.Layerdrop = 3, 6, new(int64(0)), new(0.5)
	config.CTCZeroInfinity = true
	var drawing sync.Mutex
	var final [2]map[string]string
	for rank, err := range ranktest.Together(t, 2, nil, func(ctx context.Context, g *dist.Group) error {
		m, err := func() (*auto.CTCModel, error) {
			drawing.Lock()
			defer drawing.Unlock()
			torch.ManualSeed(uint64(g.Rank())) // other weights, which the main process replaces
			return auto.NewCTC(config, nil, nil)
		}()
		if err != nil {
			return err
		}
		step, err := engine.New(m.Task(), engine.Options{Optimizer: optim.AdamW{LR: 1e-3}})
		if err != nil {
			return err
		}
		fit, err := trainer.New(step, trainer.Options{MaxSteps: 4, BatchSize: 2, Group: g, Save: trainer.Never,
			Progress: io.Discard})
		if err != nil {
			return err
		}
		if _, err = fit.Fit(ctx, samples, nil); err != nil {
			return err
		}
		final[g.Rank()] = modeltest.Trained(m)
		return nil
	}) {
		require.NoError(t, err, "rank %d", rank)
	}
	assert.NotEmpty(t, final[0])
	assert.Equal(t, final[0], final[1])
}

// Without a search for unused parameters, a process waits for the gradients of layers that it has
// used and another has dropped.
func TestLayersThatAreDroppedAreNotWaitedFor(t *testing.T) {
	testenv.RequireTorch(t)
	g, err := dist.Init(t.Context(), dist.Options{Fake: true, World: 2})
	require.NoError(t, err)
	defer g.Close() //nolint:errcheck // there are no others
	config := small
	config.VocabSize, config.PadTokenID, config.Layerdrop = 6, new(int64(0)), new(0.5)
	for _, o := range []engine.Options{{GradientCheckpointing: true}, {Distributed: &ddp.Options{}},
		{GradientCheckpointing: true, Distributed: &ddp.Options{FindUnusedParameters: true}}} {
		m, err := auto.NewCTC(config, nil, nil)
		require.NoError(t, err)
		step, err := engine.New(m.Task(), o)
		require.NoError(t, err)
		fit, err := trainer.New(step, trainer.Options{MaxSteps: 1, Group: g, Save: trainer.Never, Progress: io.Discard})
		require.NoError(t, err)
		_, err = fit.Fit(t.Context(), spoken(), nil)
		require.ErrorContains(t, err, "wav2vec2.encoder leaves out layers at random (layerdrop is 0.5)")
		assert.Equal(t, exit.Configuration, exit.CodeOf(err))
	}
}
