package engine_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/run"
	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// Random numbers and schedules continue after a resume as if there had been no interruption.
func TestResumeOfRandomAndMovedThingsIsBitForBit(t *testing.T) {
	testenv.RequireTorch(t)
	train, _ := hfData(golden.Load(t, "testdata/hf.safetensors"))
	for name, c := range map[string]struct {
		hfCase
		order func(s *tagStep) data.Order
	}{
		"length groups": {hfCase{dropout: 0.2}, func(s *tagStep) data.Order {
			return data.GroupedByLength{Lengths: lengths(train), BatchSize: 4, Random: s.GlobalPermutation()}
		}},
		"random sampler": {hfCase{dropout: 0.2}, (*tagStep).RandomSampler},
		"NEFTune":        {hfCase{options: engine.Options{NEFTuneAlpha: 5}}, nil},
		"checkpointing":  {hfCase{dropout: 0.2, options: engine.Options{GradientCheckpointing: true}}, nil},
		"model init":     {hfCase{dropout: 0.2, init: true}, nil},
		"momentum of SGD": {hfCase{schedule: lr.OneCycleLR{MaxLR: 0.1},
			options: engine.Options{Optimizer: optim.SGD{LR: 0.1}}}, nil},
		"beta1 of AdamW": {hfCase{schedule: lr.OneCycleLR{MaxLR: 0.1}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			run := func(from, dir string) (*tagStep, [][]int) {
				torch.ManualSeed(9)
				var s *tagStep
				var err error
				make := func() (engine.Task[tokens, tokenBatch], error) { return &tagTask{newTagger(c.dropout)}, nil }
				if c.init {
					s, err = engine.NewFromInit(make, c.options)
				} else {
					task, _ := make()
					s, err = engine.New(task, c.options)
				}
				if err != nil {
					t.Fatal(err)
				}
				o := quiet(trainer.Options{OutputDir: dir, Epochs: 2, BatchSize: 4, Schedule: c.schedule,
					ResumeFrom: from})
				if dir != "" {
					o.Save = trainer.Every(3, trainer.Update)
				}
				watch := &seen{tagStep: s}
				if c.order != nil {
					o.Order = c.order(s)
				}
				fit, err := trainer.New(watch, o)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := fit.Fit(t.Context(), train, nil); err != nil {
					t.Fatalf("from %q: %v", from, err)
				}
				return s, watch.batches
			}
			dir := t.TempDir()
			whole, batches := run("", dir)
			want := tagFingerprint(whole)
			// inside and at the end of the first of two epochs of six updates, and inside the
			// second
			for _, k := range []int{3, 6, 9} {
				part, rest := run(filepath.Join(dir, fmt.Sprintf("checkpoint-%d", k)), "")
				if !slices.EqualFunc(rest, batches[k:], slices.Equal) {
					t.Errorf("resumed from update %d: trained on %v, want %v", k, rest, batches[k:])
				}
				if tagFingerprint(part) != want {
					t.Errorf("resumed from update %d: weights, optimizer or generator differ from those of the whole "+
						"run", k)
				}
			}
		})
	}
}

// If a window continues across the end of an epoch, a checkpoint there has the gradients
// accumulated so far.
func TestTheGradientsOfAnOpenWindowSurviveAResume(t *testing.T) {
	testenv.RequireTorch(t)
	train, _ := hfData(golden.Load(t, "testdata/hf.safetensors"))
	run := func(from, dir string) string {
		torch.ManualSeed(9)
		s, err := engine.New[tokens, tokenBatch](&tagTask{newTagger(0.2)}, engine.Options{})
		require.NoError(t, err)
		o := trainer.Options{OutputDir: dir, Epochs: 3, BatchSize: 4, Accumulate: 4, ResumeFrom: from,
			Semantics: semantics.Rules{Loop: semantics.PyMarlinLoop}}
		if dir != "" {
			o.Save = trainer.Every(1, trainer.Epoch)
		}
		fit, err := trainer.New(s, quiet(o))
		require.NoError(t, err)
		_, err = fit.Fit(t.Context(), train, nil)
		require.NoError(t, err)
		return tagFingerprint(s)
	}
	dir := t.TempDir()
	want := run("", dir)
	checkpoints, err := filepath.Glob(filepath.Join(dir, "checkpoint-*"))
	require.NoError(t, err)
	open := 0
	for _, from := range checkpoints {
		if _, err := os.Stat(filepath.Join(from, "gradients.safetensors")); err == nil {
			open++
		}
		require.Equal(t, want, run(from, ""), "resumed from %s", filepath.Base(from))
	}
	require.Positive(t, open, "no epoch ends inside a window")
}

func tagFingerprint(s *tagStep) string {
	var all []byte
	for _, p := range slices.Concat(nn.StateDict(s.Model()), s.Optimizer().State()) {
		all = append(all, p.Tensor.Bytes()...)
	}
	return string(append(all, torch.DefaultGenerator(torch.CPU).State()...))
}

func TestSavedStateThatIsNoneIsRefused(t *testing.T) {
	s := newTagStep(t, engine.Options{})
	if err := s.StartLoader(true); err != nil {
		t.Fatal(err)
	}
	s.RandomSampler().Indices(0, 5)
	if err := s.SetMomentum(0.8); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := s.Save(dir, trainer.SaveOptions{}); err != nil {
		t.Fatal(err)
	}
	before := tagFingerprint(s)
	for _, c := range []struct {
		claim, file string
		damage      func(entries []safetensors.Entry, metadata map[string]string)
		want        string
	}{
		{"a generator's state of other bytes", "rng_state.safetensors", func(e []safetensors.Entry,
			_ map[string]string) {
			zero(e, "cpu")
		}, `"cpu" is not the state`},
		{"an order's state of other bytes", "rng_state.safetensors", func(e []safetensors.Entry,
			_ map[string]string) {
			zero(e, "order")
		}, `"order" is not the state`},
		{"a momentum that is no number", "optimizer.safetensors", func(_ []safetensors.Entry,
			m map[string]string) {
			m["momentum"] = "much"
		}, `found "much"`},
		{"a momentum that AdamW cannot have", "optimizer.safetensors", func(_ []safetensors.Entry,
			m map[string]string) {
			m["momentum"] = "1.5"
		}, "below 1"},
	} {
		path := filepath.Join(dir, c.file)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		rewrite(t, path, c.damage)
		if err := s.Load(dir, trainer.LoadOptions{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.claim, err, c.want)
		}
		if c.file == "rng_state.safetensors" && tagFingerprint(s) != before {
			t.Errorf("%s: a failed load changed the step", c.claim)
		}
		if err := os.WriteFile(path, whole, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Load(dir, trainer.LoadOptions{}); err != nil || tagFingerprint(s) != before {
		t.Errorf("the files as they were: %v", err)
	}
}

func TestSettingsOfACheckpoint(t *testing.T) {
	decay := func(s *tagStep) float64 { return *s.Optimizer().Groups()[0].WeightDecay }
	dir := t.TempDir()
	saved := newTagStep(t, engine.Options{Optimizer: optim.AdamW{LR: 0.1, WeightDecay: new(0.25)}})
	if err := saved.Save(dir, trainer.SaveOptions{}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "optimizer.safetensors")
	for _, c := range []struct {
		claim  string
		here   optim.Builder
		damage func(metadata map[string]string)
		load   trainer.LoadOptions
		decay  float64
		err    string
	}{
		{"Load keeps those of the options", optim.AdamW{LR: 0.1, WeightDecay: new(0.5)}, nil, trainer.LoadOptions{},
			0.5, ""},
		{"Load with Settings takes those of the checkpoint", optim.AdamW{LR: 0.1, WeightDecay: new(0.5)}, nil,
			trainer.LoadOptions{Settings: true}, 0.25, ""},
		{"the default is a setting too", optim.AdamW{LR: 0.1}, nil, trainer.LoadOptions{Settings: true}, 0.25, ""},
		{"those of another optimizer are not taken", optim.SGD{LR: 0.1}, nil, trainer.LoadOptions{Settings: true}, 0,
			""},
		{"a checkpoint without any", optim.AdamW{LR: 0.1}, func(m map[string]string) { delete(m, "settings") },
			trainer.LoadOptions{Settings: true}, 0.01, ""},
		{"settings that are no settings", optim.AdamW{LR: 0.1}, func(m map[string]string) { m["settings"] = "{" },
			trainer.LoadOptions{Settings: true}, 0.01, "the settings of the optimizer"},
		{"a setting of another type", optim.AdamW{LR: 0.1}, func(m map[string]string) {
			m["settings"] = strings.Replace(m["settings"], `"LR":0.1`, `"LR":"fast"`, 1)
		}, trainer.LoadOptions{Settings: true}, 0.01, "the settings of the optimizer"},
		{"a setting that is refused", optim.AdamW{LR: 0.1}, func(m map[string]string) {
			m["settings"] = strings.Replace(m["settings"], `"LR":0.1`, `"LR":-1`, 1)
		}, trainer.LoadOptions{Settings: true}, 0.01, "LR"},
		{"other groups", optim.AdamW{LR: 0.1}, func(m map[string]string) {
			m["settings"] = strings.Replace(m["settings"], `"groups":[`, `"groups":[{},`, 1)
		}, trainer.LoadOptions{Settings: true}, 0.01, "groups of parameters there"},
	} {
		s := newTagStep(t, engine.Options{Optimizer: c.here})
		whole, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if c.damage != nil {
			rewrite(t, file, func(_ []safetensors.Entry, m map[string]string) { c.damage(m) })
		}
		err = s.Load(dir, c.load)
		if (c.err == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: error %v, want %q", c.claim, err, c.err)
		}
		if got := decay(s); got != c.decay {
			t.Errorf("%s: weight decay %v, want %v", c.claim, got, c.decay)
		}
		if err := os.WriteFile(file, whole, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSettingsOfTheOptimizersOfGroups(t *testing.T) {
	testenv.RequireTorch(t)
	options := func(own optim.Builder) engine.Options {
		return engine.Options{Optimizer: optim.Muon{LR: 0.02}, Groups: muonAndAdamW(own)}
	}
	dir := t.TempDir()
	saved := newStep(t, options(optim.AdamW{LR: 0.01, Beta2: new(0.5)}))
	require.NoError(t, saved.Save(dir, trainer.SaveOptions{}))
	for _, c := range []struct{ here, want optim.Builder }{
		{optim.AdamW{LR: 0.04, Eps: new(0.1)}, optim.AdamW{LR: 0.01, Beta2: new(0.5)}},
		{optim.Lion{LR: 0.04}, optim.Lion{LR: 0.04}},
	} {
		s := newStep(t, options(c.here))
		require.NoError(t, s.Load(dir, trainer.LoadOptions{Settings: true}))
		own := s.Optimizer().Groups()[1]
		assert.Equal(t, c.want, own.Optimizer)
		assert.Equal(t, 0.5, own.LRScale)
		assert.Contains(t, s.About().Settings["Groups"], fmt.Sprintf("%T{", c.want))
	}
}

// rewrite changes a safetensors file.
func rewrite(t *testing.T, path string, change func([]safetensors.Entry, map[string]string)) {
	t.Helper()
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	var entries []safetensors.Entry
	for _, info := range f.Tensors() {
		bytes, err := f.Read(info.Name)
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, safetensors.Entry{Name: info.Name, DType: info.DType, Shape: info.Shape,
			Data: safetensors.Bytes(bytes)})
	}
	metadata := f.Metadata()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	change(entries, metadata)
	if err := safetensors.WriteFile(path, entries, metadata); err != nil {
		t.Fatal(err)
	}
}

func zero(entries []safetensors.Entry, name string) {
	for i := range entries {
		if entries[i].Name == name {
			entries[i].Shape, entries[i].Data = []int64{16}, safetensors.Bytes(make([]byte, 16))
		}
	}
}

// The order of PyTorch's DataLoader(shuffle=True) after torch.manual_seed(3): two epochs of seven
// samples.
func TestRandomSamplerIsPyTorchs(t *testing.T) {
	s := newTagStep(t, engine.Options{})
	if err := s.Seed(3, trainer.SeedOptions{}); err != nil {
		t.Fatal(err)
	}
	order := s.RandomSampler()
	for epoch, want := range [][]int{{3, 2, 5, 4, 1, 0, 6}, {3, 1, 6, 0, 2, 4, 5}} {
		if err := s.StartLoader(true); err != nil {
			t.Fatal(err)
		}
		first, again := order.Indices(epoch, 7), order.Indices(epoch, 7)
		if !slices.Equal(first, want) || !slices.Equal(again, want) {
			t.Errorf("epoch %d is %v, asked again %v; want %v", epoch, first, again, want)
		}
	}
}

func TestStateOfAnotherOptimizerOrModelChangesNothing(t *testing.T) {
	saved := newTagStep(t, engine.Options{})
	if err := saved.Train(t.Context(), batchOf(t, 3), trainer.Window{Len: 1, Divisor: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := saved.Update(t.Context(), 0.1); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := saved.Save(dir, trainer.SaveOptions{}); err != nil {
		t.Fatal(err)
	}
	sgd := newTagStep(t, engine.Options{Optimizer: optim.SGD{LR: 0.1, Momentum: 0.9}})
	before := tagFingerprint(sgd)
	if err := sgd.Load(dir, trainer.LoadOptions{}); !errors.Is(err, optim.ErrState) || tagFingerprint(sgd) != before {
		t.Errorf("AdamW's state in SGD: %v; the step changed: %t", err, tagFingerprint(sgd) != before)
	}
	other := newStep(t, engine.Options{})
	was := fingerprint(other)
	if err := other.Load(dir, trainer.LoadOptions{}); err == nil || fingerprint(other) != was {
		t.Errorf("the state of another model: %v; the step changed: %t", err, fingerprint(other) != was)
	}
}

func TestACheckpointOfAnotherOptimizerHasTheExitCodeOfARefusedResume(t *testing.T) {
	dir := t.TempDir()
	emaRun(t, engine.EMA{}, trainer.Options{OutputDir: dir}, nil)
	train, _ := hfData(golden.Load(t, "testdata/hf.safetensors"))
	fit, err := trainer.New(newTagStep(t, engine.Options{Optimizer: optim.SGD{LR: 0.1}}), quiet(trainer.Options{Epochs: 2,
		BatchSize: 4, OutputDir: dir, ResumeFrom: trainer.Latest}))
	require.NoError(t, err)
	_, err = fit.Fit(t.Context(), train, nil)
	require.ErrorContains(t, err, "resume with the model and the optimizer of that run")
	assert.Equal(t, run.ResumeRefused, run.CodeOf(err))
}

// Tensors of 64 KiB and more are read directly into the state that the optimizer has or makes.
func TestALargeStateIsReadIntoItsPlace(t *testing.T) {
	testenv.RequireTorch(t)
	wide := func(updates int) *step {
		torch.ManualSeed(1)
		s, err := engine.New(engine.Classify(&net{nn.NewLinear(2, 1<<14, nil), nn.NewBatchNorm1d(1<<14, nil),
			nn.NewDropout(0.2), nn.NewLinear(1<<14, 2, nil)}), engine.Options{Optimizer: optim.AdamW{LR: 0.1}})
		require.NoError(t, err)
		for i := range updates {
			torch.NoGrad(func() {
				for _, p := range nn.Params(s.Model()) {
					p.Tensor.SetGrad(p.Tensor.Detach().MulScalar(float64(i + 2)))
				}
			})
			_, err = s.Update(t.Context(), 0.1)
			require.NoError(t, err)
		}
		return s
	}
	everything := func(s *step) map[string][]byte {
		all := map[string][]byte{}
		for _, p := range slices.Concat(nn.StateDict(s.Model()), s.Optimizer().State()) {
			all[p.Name] = p.Tensor.Bytes()
		}
		return all
	}
	dir := t.TempDir()
	saved := wide(3)
	require.NoError(t, saved.Save(dir, trainer.SaveOptions{}))
	for _, updates := range []int{0, 1} {
		s := wide(updates)
		require.NoError(t, s.Load(dir, trainer.LoadOptions{}))
		require.Equal(t, 3, s.Optimizer().Updates())
		got, want := everything(s), everything(saved)
		require.Len(t, got, len(want))
		for name := range want {
			require.True(t, slices.Equal(want[name], got[name]), "%s after %d updates of its own", name, updates)
		}
	}
}

// A run that returns to a checkpoint of an earlier epoch continues with the next data.
func TestAReturnToACheckpointKeepsTheOrderOfTheRunningEpoch(t *testing.T) {
	s := newStep(t, engine.Options{})
	order, dir := s.RandomSampler(), t.TempDir()
	first := order.Indices(0, 50)
	require.NoError(t, s.Save(dir, trainer.SaveOptions{}))
	state, err := s.RandomState()
	require.NoError(t, err)
	require.NoError(t, s.StartLoader(true))
	second := order.Indices(1, 50)
	require.NotEqual(t, first, second)

	for _, c := range []struct {
		keep bool
		want []int
	}{{true, second}, {false, first}} {
		require.NoError(t, s.Load(dir, trainer.LoadOptions{KeepOrder: c.keep}))
		assert.Equal(t, c.want, order.Indices(1, 50), "keep %t", c.keep)
		require.NoError(t, s.SetRandomState(state))
		assert.Equal(t, c.want, order.Indices(1, 50), "keep %t, of several processes", c.keep)
	}
}
