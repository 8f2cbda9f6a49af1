package engine_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/crnn"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// graphRun is a run on the ring, with dropout and batch norm.
type graphRun struct {
	samples, batch, accumulate, evalEvery int
	options                               engine.Options
	fp16                                  bool
	rules                                 semantics.Rules
	nonFinite                             trainer.NonFinite
}

// fit trains and returns everything that must have the same bits.
func (c graphRun) fit(t require.TestingT, g engine.Graphs, from, dir string) (outcome string, replayed int) {
	torch.ManualSeed(5)
	torch.SetThreads(1)
	o := c.options
	o.Graphs, o.Warn = g, func(string) {}
	s, err := engine.New(engine.Classify(newNet()), o)
	require.NoError(t, err)
	if c.fp16 {
		engine.UseFloat16(s, amp.GradScalerOptions{InitScale: 1 << 18, GrowthInterval: 3})
	}
	options := quiet(trainer.Options{Epochs: 2, BatchSize: c.batch, Accumulate: c.accumulate, Semantics: c.rules,
		Schedule: lr.Linear{}, Log: trainer.Every(2, trainer.Update), Eval: trainer.Never, Save: trainer.Never,
		OutputDir: dir, ResumeFrom: from, NonFinite: c.nonFinite})
	var valid data.Dataset[data.Example]
	if c.evalEvery > 0 {
		options.Eval, valid = trainer.Every(c.evalEvery, trainer.Update), ring(7)
	}
	if dir != "" {
		options.Save = trainer.Every(1, trainer.Update)
	}
	fit, err := trainer.New(s, options)
	require.NoError(t, err)
	r, err := fit.Fit(context.Background(), ring(c.samples), valid)
	require.NoError(t, err)
	outcome = fingerprint(s)
	if from == "" {
		outcome += fmt.Sprintf(" loss %v", r.TrainLoss)
	}
	if c.fp16 {
		outcome += fmt.Sprintf(" %+v", engine.Scaler(s).State())
	}
	return outcome, engine.Replayed(s)
}

func drawGraphRun(t *rapid.T) graphRun {
	c := graphRun{
		samples: rapid.IntRange(9, 30).Draw(t, "samples"), batch: rapid.IntRange(2, 5).Draw(t, "batch"),
		accumulate: rapid.IntRange(1, 3).Draw(t, "accumulate"), evalEvery: rapid.IntRange(0, 3).Draw(t, "eval"),
		rules: rapid.SampledFrom([]semantics.Rules{semantics.Default, semantics.HuggingFace}).Draw(t, "rules"),
	}
	if c.samples%c.batch == 1 { // batch norm refuses a batch of one sample
		c.samples++
	}
	c.nonFinite = rapid.SampledFrom([]trainer.NonFinite{0, trainer.SkipNonFinite}).Draw(t, "non finite")
	c.options.Optimizer = rapid.SampledFrom([]optim.Builder{optim.AdamW{LR: 0.01}, optim.SGD{LR: 0.05, Momentum: 0.9},
		optim.Adagrad{LR: 0.01}, optim.RMSprop{LR: 0.01}}).Draw(t, "optimizer")
	c.options.MaxGradNorm = rapid.SampledFrom([]float64{0, 0.05, -1}).Draw(t, "max norm")
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 0:
		c.options.Precision = amp.BF16
	case 1:
		c.fp16 = true
	case 2:
		c.options.EMA = engine.EMA{Decay: 0.9, Evaluate: true}
	case 3:
		c.options.FullEval = amp.BF16 // which moves the weights for each evaluation
	}
	return c
}

// Whatever the options of a run, its bits are those of the run without graphs. This includes
// dropout, running statistics, short windows, and evaluations and logs between replays.
func TestARunWithGraphsHasTheBitsOfTheRunWithout(t *testing.T) {
	testenv.RequireTorch(t)
	engine.PretendGraphs(t)
	total := 0
	rapid.Check(t, func(rt *rapid.T) {
		c := drawGraphRun(rt)
		g := engine.Graphs{Kinds: rapid.IntRange(1, 4).Draw(rt, "kinds"), WarmUp: rapid.IntRange(1, 3).Draw(rt, "warm up")}
		want, none := c.fit(rt, engine.Graphs{}, "", "")
		require.Zero(rt, none)
		got, replayed := c.fit(rt, g, "", "")
		require.Equal(rt, want, got)
		total += replayed
	})
	assert.Positive(t, total, "nothing was replayed")
}

// A graph uses what was sent ahead: the computing stream waits for it once and copies it to the
// graph's memory, and nothing else is sent.
func TestGraphsTakeWhatWasSentAhead(t *testing.T) {
	testenv.RequireTorch(t)
	engine.PretendGraphs(t)
	total := 0
	rapid.Check(t, func(rt *rapid.T) {
		c := drawGraphRun(rt)
		want, _ := c.fit(rt, engine.Graphs{}, "", "")
		got, replayed := "", 0
		t.Run("remote", func(t *testing.T) {
			sent := engine.PretendRemote(t)
			calls := engine.PretendSideStream(t)
			c.options.Prefetch = true
			got, replayed = c.fit(rt, engine.Graphs{Kinds: 3, WarmUp: 1}, "", "")
			batches, waits := 0, 0
			for _, call := range *calls {
				if call == "send" {
					batches++
				}
				if strings.HasPrefix(call, "wait ") {
					waits++
				}
			}
			assert.Equal(t, 2*batches, sent(), "features and classes of each batch, once")
			assert.Equal(t, batches, waits)
		})
		require.Equal(rt, want, got)
		total += replayed
	})
	assert.Positive(t, total, "nothing was replayed")
}

func TestARunWithGraphsResumesAtEveryUpdate(t *testing.T) {
	testenv.RequireTorch(t)
	engine.PretendGraphs(t)
	for name, c := range map[string]graphRun{
		"plain": {samples: 12, batch: 3, accumulate: 1},
		"windows with a tail, evaluations": {samples: 14, batch: 2, accumulate: 3, evalEvery: 2,
			options: engine.Options{EMA: engine.EMA{Decay: 0.9, Evaluate: true}}},
		"fp16":        {samples: 12, batch: 3, accumulate: 1, fp16: true, rules: semantics.HuggingFace},
		"open window": {samples: 10, batch: 2, accumulate: 2, rules: semantics.Rules{Loop: semantics.PyMarlinLoop}},
	} {
		t.Run(name, func(t *testing.T) {
			g, dir := engine.Graphs{Kinds: 3, WarmUp: 1}, t.TempDir()
			want, _ := c.fit(t, engine.Graphs{}, "", t.TempDir())
			whole, replayed := c.fit(t, g, "", dir)
			require.Equal(t, want, whole)
			require.Positive(t, replayed)
			checkpoints, err := filepath.Glob(filepath.Join(dir, "checkpoint-*"))
			require.NoError(t, err)
			require.NotEmpty(t, checkpoints)
			want, _, _ = strings.Cut(want, " ")
			for _, from := range checkpoints {
				part, _ := c.fit(t, g, from, "")
				part, _, _ = strings.Cut(part, " ")
				require.Equal(t, want, part, "resumed from %s", filepath.Base(from))
			}
		})
	}
}

// graphStep trains a Step update by update, with a change in the middle.
func graphStep(t *testing.T, g engine.Graphs, o engine.Options, change func(s *step)) (bits string, replayed int,
	warnings []string) {
	torch.ManualSeed(6)
	o.Graphs, o.Warn = g, func(text string) { warnings = append(warnings, text) }
	s := newStep(t, o)
	warnings = nil // the warnings of New are about the CPU
	batch, err := s.Collate(ring(4))
	require.NoError(t, err)
	for k := range 10 {
		if k == 5 {
			change(s)
		}
		require.NoError(t, s.Train(t.Context(), batch, trainer.Window{Len: 1, Divisor: 1}))
		require.NoError(t, s.Clip(t.Context()))
		_, err := s.Update(t.Context(), 0.1/float64(k+1))
		require.NoError(t, err)
	}
	return fingerprint(s), engine.Replayed(s), warnings
}

func TestAGraphIsForgottenWhereItWouldBeWrong(t *testing.T) {
	testenv.RequireTorch(t)
	engine.PretendGraphs(t)
	weight := func(s *step) torch.Tensor { return nn.Params(s.Model())[0].Tensor }
	for name, c := range map[string]struct {
		change   func(s *step)
		replayed int // number of ten micro-batches, two of which warm up
	}{
		"nothing happens": {func(*step) {}, 8},
		"the weights move": {func(s *step) {
			torch.NoGrad(func() { weight(s).SetData_(weight(s).Detach().Clone().Keep()) })
		}, 6},
		"a weight is frozen":   {func(s *step) { weight(s).SetRequiresGrad(false) }, 6},
		"a weight is changed":  {func(s *step) { torch.NoGrad(func() { weight(s).Zero_() }) }, 8},
		"the graphs are freed": {func(s *step) { require.NoError(t, s.Around(func() error { return nil })) }, 6},
		"a state is loaded": {func(s *step) {
			dir := t.TempDir()
			require.NoError(t, s.Save(dir, trainer.SaveOptions{}))
			require.NoError(t, s.Load(dir, trainer.LoadOptions{}))
		}, 6},
		"an evaluation in bf16": {func(s *step) {
			batch, err := s.Collate(ring(3))
			require.NoError(t, err)
			require.NoError(t, s.Eval(t.Context(), batch))
			_, err = s.Metrics(t.Context())
			require.NoError(t, err)
		}, 8},
	} {
		t.Run(name, func(t *testing.T) {
			o := engine.Options{FullEval: amp.BF16}
			want, _, _ := graphStep(t, engine.Graphs{}, o, c.change)
			got, replayed, warnings := graphStep(t, engine.Graphs{Kinds: 2, WarmUp: 2}, o, c.change)
			assert.Equal(t, want, got)
			assert.Equal(t, c.replayed, replayed)
			assert.Empty(t, warnings)
		})
	}
}

// Batches whose gradients add up in a window share the gradients' memory, whatever their shapes.
func TestWindowsOfSeveralShapesAddUp(t *testing.T) {
	testenv.RequireTorch(t)
	engine.PretendGraphs(t)
	run := func(g engine.Graphs) (bits string, replayed int) {
		torch.ManualSeed(6)
		s := newStep(t, engine.Options{Graphs: g, Warn: func(string) {}})
		for k := range 12 {
			for i, rows := range []int{4, 3, 4}[:1+k%3] {
				batch, err := s.Collate(ring(rows))
				require.NoError(t, err)
				require.NoError(t, s.Train(t.Context(), batch, trainer.Window{Index: i, Len: 1 + k%3, Divisor: 3}))
			}
			require.NoError(t, s.Clip(t.Context()))
			_, err := s.Update(t.Context(), 0.1)
			require.NoError(t, err)
		}
		return fingerprint(s), engine.Replayed(s)
	}
	want, _ := run(engine.Graphs{})
	got, replayed := run(engine.Graphs{Kinds: 3, WarmUp: 1})
	assert.Equal(t, want, got)
	assert.Equal(t, 11+7+3, replayed)
	got, replayed = run(engine.Graphs{Kinds: 1, WarmUp: 1})
	assert.Equal(t, want, got)
	assert.Equal(t, 11, replayed)
}

// readingTask reads a tensor's value in the middle of a forward pass.
type readingTask struct {
	engine.Task[data.Example, engine.Examples]
}

func (r readingTask) Loss(p engine.ForwardPass, b engine.Examples) engine.Loss {
	loss := r.Task.Loss(p, b)
	if loss.Value.Item() < 0 {
		panic("a cross-entropy below zero")
	}
	return loss
}

func (r readingTask) Inputs(p engine.ForwardPass, b engine.Examples) {
	r.Task.(engine.InputLister[engine.Examples]).Inputs(p, b)
}

// unlisted is a task that lists no inputs, and strange one that lists the wrong ones.
type (
	unlisted struct {
		engine.Task[data.Example, engine.Examples]
	}
	strange struct{ readingTask }
)

func (s strange) Inputs(p engine.ForwardPass, b engine.Examples) { engine.Input(p, b.Classes) }

func (s strange) Loss(p engine.ForwardPass, b engine.Examples) engine.Loss { return s.Task.Loss(p, b) }

func TestWhatIsNotRecordedIsSaidOnce(t *testing.T) {
	testenv.RequireTorch(t)
	engine.PretendGraphs(t)
	g := engine.Graphs{Kinds: 1, WarmUp: 1}
	for name, c := range map[string]struct {
		task     func(engine.Task[data.Example, engine.Examples]) engine.Task[data.Example, engine.Examples]
		split    bool
		options  engine.Options
		warnings []string
	}{
		"a task without a list": {task: func(task engine.Task[data.Example, engine.Examples]) engine.Task[data.Example,
			engine.Examples] {
			return unlisted{task}
		}, warnings: []string{"anything, since engine_test.unlisted does not list its inputs (engine.InputLister)"}},
		"a task that reads back": {task: func(task engine.Task[data.Example, engine.Examples]) engine.Task[data.Example,
			engine.Examples] {
			return readingTask{task}
		}, warnings: []string{"what engine_test.readingTask does: ", "reads numbers back"}},
		"a hook in the middle": {split: true,
			warnings: []string{"micro-batches with a hook or a report between forward and backward"}},
		"a second kind": {warnings: []string{"batches of more than 1 kinds (Options.Graphs.Kinds)"}},
		"an optimizer that does not wait": {options: engine.Options{Optimizer: optim.LOMO{LR: 0.01}},
			warnings: []string{"anything, since optim.LOMO updates weights during the backward pass"}},
	} {
		t.Run(name, func(t *testing.T) {
			run := func(g engine.Graphs) (bits string, said []string) {
				torch.ManualSeed(8)
				o := c.options
				o.Graphs, o.Warn = g, func(text string) { said = append(said, text) }
				task := engine.Classify(newNet())
				if c.task != nil {
					task = c.task(task)
				}
				s, err := engine.New(task, o)
				require.NoError(t, err)
				for k := range 8 {
					batch, err := s.Collate(ring(2 + k%2))
					require.NoError(t, err)
					w := trainer.Window{Len: 1, Divisor: 1, LearningRate: 0.01}
					if c.split {
						require.NoError(t, s.Forward(t.Context(), batch, w))
						require.NoError(t, s.Backward(t.Context()))
					} else {
						require.NoError(t, s.Train(t.Context(), batch, w))
					}
					require.NoError(t, s.Clip(t.Context()))
					_, err = s.Update(t.Context(), 0.01)
					require.NoError(t, err)
				}
				return fingerprint(s), said
			}
			want, _ := run(engine.Graphs{})
			got, said := run(g)
			assert.Equal(t, want, got)
			if assert.Len(t, said, 1) {
				for _, text := range append(c.warnings, "not recorded as a CUDA graph: ") {
					assert.Contains(t, said[0], text)
				}
			}
		})
	}
}

func TestATaskThatListsOtherInputsIsTold(t *testing.T) {
	testenv.RequireTorch(t)
	engine.PretendGraphs(t)
	s, err := engine.New[data.Example, engine.Examples](strange{readingTask{engine.Classify(newNet())}},
		engine.Options{Graphs: engine.Graphs{Kinds: 1}})
	require.NoError(t, err)
	batch, err := s.Collate(ring(2))
	require.NoError(t, err)
	err = s.Train(t.Context(), batch, trainer.Window{Len: 1, Divisor: 1})
	require.ErrorContains(t, err, "the forward pass asks for input 0, float32 of shape [2 2], which the task's Inputs "+
		"(engine.InputLister) has not listed there")
}

// A class for which the model has no output is refused as without a graph.
func TestAGraphDoesNotHideAWrongClass(t *testing.T) {
	testenv.RequireTorch(t)
	engine.PretendGraphs(t)
	s := newStep(t, engine.Options{Graphs: engine.Graphs{Kinds: 1, WarmUp: 1}})
	for range 3 {
		batch, err := s.Collate(ring(2))
		require.NoError(t, err)
		require.NoError(t, s.Train(t.Context(), batch, trainer.Window{Len: 1, Divisor: 1}))
		require.NoError(t, s.ZeroGrad())
	}
	require.Equal(t, 2, engine.Replayed(s))
	err := s.Train(t.Context(), engine.Examples{Features: make([]float32, 4), Classes: []int64{0, 2}},
		trainer.Window{Len: 1, Divisor: 1})
	require.ErrorContains(t, err, "row 1 of the batch has class 2")
}

func TestGraphsThatCannotBeAreRefused(t *testing.T) {
	testenv.RequireTorch(t)
	for want, g := range map[string]engine.Graphs{
		"Options.Graphs is set, but Options.Device is cpu; CUDA graphs need a GPU": {Kinds: 1},
		"want numbers that are not negative":                                       {Kinds: -1},
		"Options.Graphs.WarmUp is set, but Kinds is 0":                             {WarmUp: 2},
	} {
		_, err := engine.New(engine.Classify(newNet()), engine.Options{Graphs: g})
		require.ErrorContains(t, err, want)
	}
}

func TestGraphsGiveTheirMemoryBack(t *testing.T) {
	testenv.RequireTorch(t)
	engine.PretendGraphs(t)
	c := graphRun{samples: 20, batch: 3, accumulate: 2, rules: semantics.Default}
	live := testenv.Live()
	c.fit(t, engine.Graphs{Kinds: 4, WarmUp: 1}, "", "")
	assert.LessOrEqual(t, testenv.Live(), live)
}

// The loss of a CRNN reads lengths from the host if cuDNN does not compute it: on a CPU always.
func TestABatchThatCannotBeRecordedSaysSo(t *testing.T) {
	testenv.RequireTorch(t)
	engine.PretendGraphs(t)
	torch.SetThreads(1)
	run := func(g engine.Graphs) (bits string, warnings []string) {
		torch.ManualSeed(2)
		model, err := crnn.New(crnn.Config{Charset: strings.Split(" abc", ""), Map2SeqDim: 8, RNNDim: 8,
			ConvChannels: []int64{4, 4, 8, 8, 8, 8, 8}})
		require.NoError(t, err)
		s, err := engine.New(crnn.NewTask(model), engine.Options{Graphs: g,
			Warn: func(text string) { warnings = append(warnings, text) }})
		require.NoError(t, err)
		for k := range 6 {
			batch, err := s.Collate([]crnn.Sample{{Pixels: make([]float32, 32*128), Text: "abc"[:1+k%3]},
				{Pixels: make([]float32, 32*128), Text: "cba"[k%3:]}})
			require.NoError(t, err)
			require.NoError(t, s.Train(t.Context(), batch, trainer.Window{Len: 1, Divisor: 1}))
			_, err = s.Update(t.Context(), 0.01)
			require.NoError(t, err)
		}
		assert.Zero(t, engine.Replayed(s))
		for _, p := range nn.Params(model) {
			bits += fmt.Sprint(p.Tensor.Bytes())
		}
		return bits, warnings
	}
	want, _ := run(engine.Graphs{})
	got, warnings := run(engine.Graphs{Kinds: 4, WarmUp: 1})
	assert.Equal(t, want, got)
	require.Len(t, warnings, 1)
	assert.Contains(t, warnings[0], "not recorded as a CUDA graph: CTC loss of libtorch's own")
}
