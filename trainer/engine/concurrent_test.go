package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// reader is a small CRNN: a convolution over a picture, a recurrent layer over its columns, and
// dropout after both.
type reader struct {
	Conv    *nn.Conv2d  `module:"conv"`
	Dropout *nn.Dropout `module:"dropout"`
	RNN     *nn.LSTM    `module:"rnn"`
	Out     *nn.Linear  `module:"out"`
}

func newReader() *reader {
	return &reader{nn.NewConv2d(1, 4, nn.Dims{3, 3}, &nn.ConvOptions{Padding: nn.Dims{1, 1}}), nn.NewDropout(0.3),
		nn.NewLSTM(16, 8, &nn.RNNOptions{Layers: 2, Dropout: 0.2, BatchFirst: true}), nn.NewLinear(8, 2, nil)}
}

func (r *reader) Forward(x torch.Tensor) torch.Tensor {
	n := x.Size(0)
	x = r.Dropout.Forward(r.Conv.Forward(x.Reshape(n, 1, 4, 4)).ReLU()) // [n, 4, 4, 4]
	columns := r.RNN.Forward(x.Permute(0, 3, 1, 2).Reshape(n, 4, 16))
	return r.Out.Forward(columns.MeanDim([]int64{1}, false, torch.DefaultDType))
}

// trainAlone makes a run of one of three kinds with its own seed. It returns the final weights, the
// log, and the random state in the last checkpoint.
func trainAlone(i int, dir string) (string, error) {
	features := []int{2, 16, 2}[i%3]
	r := rand.New(rand.NewPCG(1, uint64(i)))
	set := make(data.Slice[data.Example], 24)
	for k := range set {
		set[k] = data.Example{Class: int64(k % 2), Features: make([]float32, features)}
		for j := range set[k].Features {
			set[k].Features[j] = r.Float32()
		}
	}
	train := data.Augment[data.Example](set, uint64(i), func(r *rand.Rand, e data.Example) (data.Example, error) {
		moved := make([]float32, len(e.Features))
		for j, v := range e.Features {
			moved[j] = v + 0.1*r.Float32()
		}
		e.Features = moved
		return e, nil
	})
	var s *step
	var err error
	switch o := (engine.Options{}); i % 3 {
	case 0: // the model is made while others are made
		torch.ForkRNG(func() { s, err = engine.New(engine.Classify(newNet()), o) })
	case 1:
		torch.ForkRNG(func() {
			torch.ManualSeed(uint64(i))
			s, err = engine.New(engine.Classify(newReader()), o)
		})
	default: // the model is made by the run
		s, err = engine.NewFromInit(func() (engine.Task[data.Example, engine.Examples], error) {
			return engine.Classify(&net{nn.NewLinear(2, 16, nil), nn.NewBatchNorm1d(16, nil), nn.NewDropout(0.2),
				nn.NewLinear(16, 2, nil)}), nil
		}, o)
	}
	if err != nil {
		return "", err
	}
	o := quiet(trainer.Options{Epochs: 4, BatchSize: 4, Seed: uint64(i), Workers: 2, LearningRate: 0.01, OutputDir: dir,
		Save: trainer.Every(10, trainer.Update), Log: trainer.Every(1, trainer.Update)})
	if i%2 == 1 {
		o.Order = s.GlobalPermutation() // drawn from the run's generator by a goroutine of the loader
	}
	t, err := trainer.New(s, o)
	if err != nil {
		return "", err
	}
	result, err := t.Fit(context.Background(), train, set)
	if err != nil {
		return "", err
	}
	text := ""
	for _, p := range nn.StateDict(s.Model()) {
		text += fmt.Sprintf("%s %x\n", p.Name, p.Tensor.Bytes())
	}
	for _, row := range result.History {
		text += fmt.Sprintf("%x %x %x\n", row["loss"], row["grad_norm"], row["eval_loss"])
	}
	random, err := readBytes(result.Checkpoint, "rng_state.safetensors")
	return text + fmt.Sprintf("%x", random), err
}

func TestRunsAtTheSameTimeAreThoseOfLoneOnes(t *testing.T) {
	testenv.RequireTorch(t)
	build, err := torch.BuildInfo()
	require.NoError(t, err)
	require.True(t, build.OwnGenerators)
	torch.SetThreads(1)
	const n = 16
	var alone, together [n]string
	var errs [n]error
	for i := range n {
		alone[i], err = trainAlone(i, t.TempDir())
		require.NoError(t, err)
	}
	var wait sync.WaitGroup
	for i := range n {
		dir := t.TempDir()
		wait.Go(func() { together[i], errs[i] = trainAlone(i, dir) })
	}
	wait.Wait()
	for i := range n {
		require.NoError(t, errs[i])
		assert.True(t, alone[i] == together[i], "run %d of kind %d ended with other bits among 15 concurrent ones", i, i%3)
	}
	assert.NotEqual(t, alone[0], alone[3])
}

// Numbers that a program draws between New and Fit of its only run matter, as in Python.
func TestALoneRunBeginsWhereTheDefaultGeneratorIs(t *testing.T) {
	after := func(between func()) string {
		s := newStep(t, engine.Options{})
		fit, err := trainer.New(s, quiet(trainer.Options{Epochs: 1, BatchSize: 8, Semantics: semantics.HuggingFace}))
		require.NoError(t, err)
		between()
		_, err = fit.Fit(context.Background(), ring(32), nil)
		require.NoError(t, err)
		return fingerprint(s)
	}
	nothing := after(func() {})
	assert.Equal(t, nothing, after(func() { torch.ManualSeed(42) }), "42 is the default seed")
	assert.NotEqual(t, nothing, after(func() { torch.ManualSeed(43) }))
	assert.NotEqual(t, nothing, after(func() { torch.Rand(1) }))
}

func readBytes(dir, name string) ([]byte, error) { return os.ReadFile(filepath.Join(dir, name)) }
