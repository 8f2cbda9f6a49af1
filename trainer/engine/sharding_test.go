package engine_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/checkpoint/sharded"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/dist/shard"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/ranktest"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// tower has layers that are units, and parameters that are in no unit: an input layer, a head, a
// frozen weight, and a weight that no loss reaches.
type tower struct {
	In     *nn.Linear   `module:"in"`
	Layers []*nn.Linear `module:"layers"`
	Out    *nn.Linear   `module:"out"`
	Frozen *nn.Linear   `module:"frozen"`
	Unused *nn.Linear   `module:"unused"`

	drop *nn.Dropout `module:"-"`
	run  func(i int, f func([]torch.Tensor) []torch.Tensor, in ...torch.Tensor) []torch.Tensor
}

func (m *tower) RunLayers(run func(i int, f func([]torch.Tensor) []torch.Tensor,
	in ...torch.Tensor) []torch.Tensor) (layers []any) {
	m.run = run
	for _, l := range m.Layers {
		layers = append(layers, l)
	}
	return layers
}

var drawing sync.Mutex // protects the generator that the ranks of a test share

func newTower() *tower {
	drawing.Lock()
	defer drawing.Unlock()
	torch.ManualSeed(11)
	m := &tower{In: nn.NewLinear(3, 5, nil), Out: nn.NewLinear(5, 1, nil), Frozen: nn.NewLinear(5, 5, nil),
		Unused: nn.NewLinear(2, 2, nil), drop: nn.NewDropout(0.1)}
	for range 3 {
		m.Layers = append(m.Layers, nn.NewLinear(5, 5, nil))
	}
	nn.To(m, torch.TensorOptions{DType: torch.Float64})
	for _, p := range nn.Params(m.Frozen) {
		p.Tensor.SetRequiresGrad(false)
	}
	return m
}

// towerTask regresses a sample, a number, on its sine.
type towerTask struct {
	run   *towerRun
	model *tower
}

func (t towerTask) Model() any { return t.model }

func (t towerTask) Collate(samples []int) ([]int, error) { return samples, nil }

func (t towerTask) Loss(_ engine.ForwardPass, b []int) engine.Loss {
	if torch.IsGradEnabled() {
		t.run.trained = append(t.run.trained, b...)
	}
	var x, y []float64
	for _, n := range b {
		v := float64(n) / 7
		x, y = append(x, v, v*v/9, 1), append(y, math.Sin(v))
	}
	m := t.model
	h := m.In.Forward(torch.From(x).Reshape(int64(len(b)), 3)).Tanh()
	for i, l := range m.Layers {
		f := func(in []torch.Tensor) []torch.Tensor {
			return []torch.Tensor{in[0].Add(m.drop.Forward(l.Forward(in[0]).Tanh()))}
		}
		if m.run != nil {
			h = m.run(i, f, h)[0]
		} else {
			h = f([]torch.Tensor{h})[0]
		}
	}
	h = m.Frozen.Forward(h)
	loss := m.Out.Forward(h).Sub(torch.From(y).Reshape(int64(len(b)), 1)).Square().Mean(torch.DefaultDType)
	return engine.Loss{Value: loss, Rows: len(b)}
}

func numbers(from, n int) (s data.Slice[int]) {
	for i := range n {
		s = append(s, from+i)
	}
	return s
}

// towerRun is the run of one rank, with its outcome.
type towerRun struct {
	engine  engine.Options
	trainer trainer.Options
	valid   bool
	samples int
	calm    bool // without dropout
	drawn   bool // in the order of Step.RandomSampler

	weights map[string][]float64
	history []trainer.Logs
	trained []int // the samples, in order
	result  *trainer.Result
}

func (r *towerRun) do(ctx context.Context, g *dist.Group) error {
	m := newTower()
	if g != nil { // a trainer seeds the generator that the ranks draw from
		if err := g.Barrier(ctx); err != nil {
			return err
		}
	}
	m.drop.SetTraining(!r.calm)
	step, err := engine.New(towerTask{r, m}, r.engine)
	if err != nil {
		return err
	}
	o := quiet(r.trainer)
	o.Group = g
	if r.drawn {
		o.Order = step.RandomSampler()
	}
	t, err := trainer.New(step, o)
	if err != nil {
		return err
	}
	var valid data.Dataset[int]
	if r.valid {
		valid = numbers(100, 7)
	}
	r.result, err = t.Fit(ctx, numbers(0, cmp.Or(r.samples, 26)), valid)
	if err != nil {
		return err
	}
	r.history = r.result.History
	r.weights = map[string][]float64{}
	for _, p := range nn.StateDict(m) {
		r.weights[p.Name] = torch.Values[float64](p.Tensor.Detach())
	}
	return nil
}

// ranks makes the same run on the given number of ranks and returns the outcome of each.
func ranks(t *testing.T, world int, run func() *towerRun) []*towerRun {
	t.Helper()
	outcomes := make([]*towerRun, world)
	for rank, err := range ranktest.Together(t, world, nil, func(ctx context.Context, g *dist.Group) error {
		r := run()
		outcomes[g.Rank()] = r
		return r.do(ctx, g)
	}) {
		require.NoError(t, err, "rank %d of %d", rank, world)
	}
	return outcomes
}

func equalRuns(t *testing.T, want, got *towerRun, tolerance float64, what string) {
	t.Helper()
	require.Len(t, got.weights, len(want.weights), what)
	for name, w := range want.weights {
		require.InDeltaSlice(t, w, got.weights[name], tolerance, "%s: %s", what, name)
	}
	require.Len(t, got.history, len(want.history), what)
	for i, row := range want.history {
		for _, key := range []string{"loss", "grad_norm", "eval_loss", "learning_rate"} {
			if v, ok := row[key]; ok {
				require.InDelta(t, v, got.history[i][key], max(tolerance, 1e-6*tolerance/1e-12*math.Abs(v)),
					"%s: %s of row %d", what, key, i)
			}
		}
	}
}

var strategies = []shard.Strategy{shard.ZeroRedundancyOptimizer, shard.ShardGradOp, shard.FullShard}

func plainTower() *towerRun {
	return &towerRun{valid: true, engine: engine.Options{Optimizer: optim.AdamW{LR: 0.02}, MaxGradNorm: 0.3,
		MaxGradValue: 0.1}, trainer: trainer.Options{Epochs: 2, BatchSize: 2, EvalBatchSize: 2, Accumulate: 2,
		Log: trainer.Every(1, trainer.Update)}}
}

func TestARunOfTheTrainerIsTheSameHoweverItIsSharded(t *testing.T) {
	testenv.RequireTorch(t)
	for world := 1; world <= 4; world++ {
		want := ranks(t, world, plainTower)[0]
		for _, s := range strategies {
			for _, replicas := range []int{0, 2} {
				if replicas > 0 && world < 4 {
					continue
				}
				for rank, got := range ranks(t, world, func() *towerRun {
					r := plainTower()
					r.engine.Sharding, r.engine.ShardingReplicas = s, replicas
					return r
				}) {
					equalRuns(t, want, got, 1e-12, fmt.Sprintf("%s, %d replicas, rank %d of %d", s, replicas, rank, world))
				}
			}
		}
	}
}

func TestAShardedRunContinuesBitForBit(t *testing.T) {
	testenv.RequireTorch(t)
	for i, s := range append(strategies, shard.FullShard) {
		dir, world, replicas := t.TempDir(), 3, 0
		if i == len(strategies) {
			world, replicas = 4, 2
		}
		run := func(resume bool) func() *towerRun {
			return func() *towerRun {
				r := plainTower()
				r.engine.Sharding, r.engine.ShardingReplicas = s, replicas
				r.trainer.OutputDir, r.trainer.Save = filepath.Join(dir, "run"), trainer.Every(2, trainer.Update)
				r.trainer.LoadBestAtEnd = false
				if resume {
					r.trainer.OutputDir, r.trainer.ResumeFrom = filepath.Join(dir, "again"),
						filepath.Join(dir, "run", "checkpoint-4")
				}
				return r
			}
		}
		want, got := ranks(t, world, run(false)), ranks(t, world, run(true))
		for rank := range want {
			assert.Equal(t, want[rank].weights, got[rank].weights, "%s, rank %d", s, rank)
		}
		first, second := want[0].history, got[0].history
		for i, row := range first { // the last row contains times
			if _, ok := row["train_runtime"]; !ok {
				require.Equal(t, row["loss"], second[i]["loss"], "row %d", i)
			}
		}

		out := t.TempDir() // in a single file: the weights that the run ended with
		require.NoError(t, sharded.Convert(want[0].result.Checkpoint, out))
		file := golden.Load(t, filepath.Join(out, "model.safetensors"))
		for name, w := range want[0].weights {
			assert.Equal(t, w, torch.Values[float64](file.Tensor(name)), name)
		}
	}
}

func TestTheBestShardedModelIsWholeAtTheEnd(t *testing.T) {
	testenv.RequireTorch(t)
	for i, s := range append(strategies, strategies...) {
		dir, onlyModel := t.TempDir(), i >= len(strategies)
		run := func() *towerRun {
			r := plainTower()
			r.engine.Sharding = s
			r.engine.Optimizer = optim.AdamW{LR: 0.9} // so that the last evaluation is not the best
			r.trainer.OutputDir, r.trainer.Save = dir, trainer.Every(1, trainer.Epoch)
			r.trainer.LoadBestAtEnd, r.trainer.KeepCheckpoints, r.trainer.Epochs = true, 1, 3
			r.trainer.SaveOnlyModel = onlyModel
			return r
		}
		got := ranks(t, 2, run)
		best := got[0].result.Best
		require.NotEmpty(t, best.Checkpoint)
		require.NotEqual(t, got[0].result.GlobalStep, best.GlobalStep)
		out := best.Checkpoint
		if !onlyModel {
			out = t.TempDir()
			require.NoError(t, sharded.Convert(best.Checkpoint, out))
		}
		file := golden.Load(t, filepath.Join(out, "model.safetensors"))
		for _, r := range got {
			for name, w := range r.weights {
				assert.Equal(t, torch.Values[float64](file.Tensor(name)), w, "%s: %s", s, name)
			}
		}
	}
}

func TestSharedOutModelsAreSavedWhole(t *testing.T) {
	testenv.RequireTorch(t)
	dir := t.TempDir()
	weights := map[string][]float64{}
	for rank, err := range ranktest.Together(t, 2, nil, func(ctx context.Context, g *dist.Group) error {
		m := newTower()
		step, err := engine.New(towerTask{&towerRun{}, m}, engine.Options{Sharding: shard.FullShard})
		if err != nil {
			return err
		}
		fit, err := trainer.New(step, quiet(trainer.Options{Group: g, MaxSteps: 2, BatchSize: 2, OutputDir: dir,
			SaveOnlyModel: true, Save: trainer.Every(1, trainer.Update)}))
		if err != nil {
			return err
		}
		if _, err := fit.Fit(ctx, numbers(0, 8), nil); err != nil {
			return err
		}
		if g.Main() {
			for _, p := range nn.StateDict(m) {
				weights[p.Name] = torch.Values[float64](p.Tensor.Detach())
			}
		}
		return fit.SaveModel(dir)
	}) {
		require.NoError(t, err, "rank %d", rank)
	}
	for _, path := range []string{dir, filepath.Join(dir, "checkpoint-2")} {
		file := golden.Load(t, filepath.Join(path, "model.safetensors"))
		for name, w := range weights {
			assert.Equal(t, w, torch.Values[float64](file.Tensor(name)), "%s: %s", path, name)
		}
	}
}

func TestWhatCannotBeShardedIsRefused(t *testing.T) {
	testenv.RequireTorch(t)
	static, compressed := &ddp.Options{StaticGraph: true}, &ddp.Options{Compress: torch.BFloat16}
	for want, o := range map[string]engine.Options{
		"Options.EMA is set, which cannot be combined with Options.Sharding FullShard": {EMA: engine.EMA{Decay: 0.9}},
		"Options.Distributed.StaticGraph is set":                                       {Distributed: static},
		"Options.Distributed.Compress is set":                                          {Distributed: compressed},
		"Options.FullEval is set":                                                      {FullEval: 1},
		"Options.Sharding is Strategy(9)":                                              {Sharding: 9},
		"Options.ShardingReplicas is -3":                                               {ShardingReplicas: -3},
	} {
		if o.Sharding == 0 {
			o.Sharding = shard.FullShard
		}
		_, err := engine.New(towerTask{model: newTower()}, o)
		assert.ErrorContains(t, err, want)
	}
	step, err := engine.New(towerTask{model: newTower()}, engine.Options{Sharding: shard.ShardGradOp})
	require.NoError(t, err)
	_, err = trainer.New(step, quiet(trainer.Options{}))
	require.ErrorContains(t, err, "Options.Group is nil")
	errs := ranktest.Together(t, 1, nil, func(ctx context.Context, g *dist.Group) error {
		for want, o := range map[string]trainer.Options{
			"Options.TransformersFiles": {TransformersFiles: true, OutputDir: t.TempDir()},
			"Options.Saver":             {Saver: noSaver{}},
		} {
			o.Group = g
			_, err := trainer.New(step, quiet(o))
			assert.ErrorContains(t, err, want)
		}
		lamb := &towerRun{engine: engine.Options{Sharding: shard.FullShard, Optimizer: optim.LAMB{}},
			trainer: trainer.Options{MaxSteps: 1}}
		return lamb.do(ctx, g)
	})
	require.ErrorContains(t, errs[0], "LAMB cannot be sharded")
}

type noSaver struct{ trainer.Saver }

// If a rank dies while a checkpoint is being written, there is no checkpoint, and the errors of the
// others name the rank.
func TestAShardedCheckpointIsWholeOrNotThere(t *testing.T) {
	testenv.RequireTorch(t)
	dir := t.TempDir()
	gone := errors.New("gone")
	errs := ranktest.Together(t, 3, nil, func(ctx context.Context, g *dist.Group) error {
		r := plainTower()
		r.engine.Sharding = shard.FullShard
		r.trainer.OutputDir, r.trainer.Save = dir, trainer.Every(2, trainer.Update)
		if g.Rank() == 1 {
			r.trainer.Callbacks = []any{leavesAt{2, func() { g.Close() }}} //nolint:errcheck // that is the test
		}
		err := r.do(ctx, g)
		if g.Rank() == 1 {
			return gone
		}
		return err
	})
	for _, rank := range []int{0, 2} {
		require.ErrorContains(t, errs[rank], "rank 1", "rank %d", rank)
	}
	left, err := filepath.Glob(filepath.Join(dir, "checkpoint-*"))
	require.NoError(t, err)
	assert.False(t, slices.Contains(left, filepath.Join(dir, "checkpoint-2")), left)
	// and the folder can be used for the next run
	again := ranks(t, 3, func() *towerRun {
		r := plainTower()
		r.engine.Sharding = shard.FullShard
		r.trainer.OutputDir, r.trainer.Save, r.trainer.ResumeFrom = dir, trainer.Every(2, trainer.Update), trainer.Latest
		return r
	})
	_, err = sharded.Open(again[0].result.Checkpoint)
	require.NoError(t, err)
}

// leavesAt calls a function at the end of an update, before its checkpoint.
type leavesAt struct {
	step  int
	leave func()
}

func (l leavesAt) StepEnd(r *trainer.Run) error {
	if r.GlobalStep == l.step {
		l.leave()
	}
	return nil
}

// Checkpoints written while training continues are the same as those of a save that waits.
func TestShardedCheckpointsAreWrittenBesideTraining(t *testing.T) {
	testenv.RequireTorch(t)
	for _, world := range []int{1, 3} {
		folders := map[bool]string{}
		for _, async := range []bool{false, true} {
			dir := t.TempDir()
			folders[async] = dir
			for _, r := range ranks(t, world, func() *towerRun {
				r := plainTower()
				r.engine.Sharding = shard.FullShard
				r.trainer.OutputDir, r.trainer.Save, r.trainer.AsyncSave = dir, trainer.Every(2, trainer.Update), async
				return r
			}) {
				require.NotEmpty(t, r.result.Checkpoint)
			}
		}
		paths, err := filepath.Glob(filepath.Join(folders[false], "checkpoint-*"))
		require.NoError(t, err)
		require.NotEmpty(t, paths)
		for _, path := range paths {
			want, err := sharded.Open(path)
			require.NoError(t, err)
			got, err := sharded.Open(filepath.Join(folders[true], filepath.Base(path)))
			require.NoError(t, err, "%d processes", world)
			assert.Equal(t, want.Tensors, got.Tensors, "parts and their checksums")
			require.NoError(t, errors.Join(want.Close(), got.Close()))
		}
	}
}

// If a hook of the main process fails when the other processes are already writing, none of them is
// left waiting.
func TestAnAsyncShardedSaveThatTheMainProcessGivesUpFailsOnAll(t *testing.T) {
	testenv.RequireTorch(t)
	dir := t.TempDir()
	for rank, err := range ranktest.Together(t, 3, nil, func(ctx context.Context, g *dist.Group) error {
		r := plainTower()
		r.engine.Sharding = shard.ShardGradOp
		r.trainer.OutputDir, r.trainer.Save, r.trainer.AsyncSave = dir, trainer.Every(2, trainer.Update), true
		r.trainer.SaveFailure = trainer.StopAtSaveFailure
		if g.Main() {
			r.trainer.Callbacks = []any{&fullDisk{saves: 1}}
		}
		return r.do(ctx, g)
	}) {
		require.ErrorContains(t, err, "no space left", "rank %d", rank)
	}
}

func TestWindowsThatRunOverTheEndOfAnEpochAreNotSharded(t *testing.T) {
	testenv.RequireTorch(t)
	for _, err := range ranktest.Together(t, 1, nil, func(ctx context.Context, g *dist.Group) error {
		r := &towerRun{engine: engine.Options{Sharding: shard.FullShard}, trainer: trainer.Options{Epochs: 1,
			Semantics: semantics.PyMarlin, Accumulate: 3, OutputDir: t.TempDir()}}
		return r.do(ctx, g)
	}) {
		require.ErrorContains(t, err, "its checkpoints have no gradients of an open window")
	}
}

// recomputed is a model that recomputes its layers, and does not let others run them.
type recomputed struct {
	A *nn.Linear `module:"a"`
	B *nn.Linear `module:"b"`
}

func (*recomputed) SetGradientCheckpointing(bool) {}

func (m *recomputed) Forward(x torch.Tensor) torch.Tensor {
	for _, l := range []*nn.Linear{m.A, m.B} {
		x = torch.Checkpoint(func(in []torch.Tensor) []torch.Tensor { return []torch.Tensor{l.Forward(in[0])} }, x)[0]
	}
	return x
}

func TestCheckpointedLayersThatAreNoUnitsAreNamed(t *testing.T) {
	testenv.RequireTorch(t)
	for rank, err := range ranktest.Together(t, 2, nil, func(ctx context.Context, g *dist.Group) error {
		m := &recomputed{nn.NewLinear(1, 1, nil), nn.NewLinear(1, 1, nil)}
		task := engine.TaskFunc(m, func(x []float32) ([]float32, error) { return x, nil },
			func(_ engine.ForwardPass, x []float32) engine.Loss {
				return engine.Mean(m.Forward(torch.From(x, int64(len(x)), 1)).Sum(torch.DefaultDType), len(x))
			})
		s, err := engine.New(task, engine.Options{GradientCheckpointing: true, Sharding: shard.FullShard})
		if err != nil {
			return err
		}
		fit, err := trainer.New(s, quiet(trainer.Options{MaxSteps: 1, BatchSize: 1, Group: g}))
		if err != nil {
			return err
		}
		_, err = fit.Fit(ctx, data.Slice[float32]{1, 2}, nil)
		return err
	}) {
		assert.ErrorContains(t, err, "recomputed has layers that Options.Sharding FullShard cannot gather one by one",
			"rank %d", rank)
	}
}
