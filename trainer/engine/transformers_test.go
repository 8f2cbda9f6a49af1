package engine_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/checkpoint"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/internal/torchsave"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// hfCheckpoint copies the checkpoint of testdata/hf_checkpoint.py into a new output folder.
func hfCheckpoint(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	require.NoError(t, os.CopyFS(filepath.Join(dir, "checkpoint-3"),
		os.DirFS("testdata/hf_checkpoint/checkpoint-3")))
	return dir
}

func hfCheckpointRows(g *golden.File) (rows data.Slice[tokens]) {
	for i := range 20 {
		rows = append(rows, tokens{row: i, ids: torch.Values[int64](g.Tensor(fmt.Sprintf("row.%d.input_ids", i))),
			labels: torch.Values[int64](g.Tensor(fmt.Sprintf("row.%d.labels", i)))})
	}
	return rows
}

// transformersRun makes a run of testdata/hf_checkpoint.py here.
func transformersRun(t *testing.T, rules semantics.Rules, change func(*trainer.Options, *engine.Options)) (*tagStep,
	*trainer.Trainer[tokens, tokenBatch]) {
	t.Helper()
	o := quiet(trainer.Options{MaxSteps: 9, BatchSize: 4, Log: trainer.Every(1, trainer.Update),
		Schedule: lr.Cosine{Warmup: 2}, Semantics: rules})
	e := engine.Options{Optimizer: optim.AdamW{LR: 0.02, WeightDecay: new(0.1)}}
	change(&o, &e)
	if o.OutputDir != "" {
		o.Save = trainer.Every(3, trainer.Update)
	}
	torch.ManualSeed(99) // whatever the weights were, they come from the checkpoint
	s, err := engine.New(tag(newTagger(0.3)), e)
	require.NoError(t, err)
	fit, err := trainer.New(s, o)
	require.NoError(t, err)
	return s, fit
}

func TestRunOfTransformersContinuesBitForBit(t *testing.T) {
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	g := golden.Load(t, "testdata/hf_checkpoint/expected.safetensors")
	var log []struct {
		Loss, Rate string
		GradNorm   string `json:"grad_norm"`
		LearnRate  string `json:"learning_rate"`
	}
	text, err := os.ReadFile("testdata/hf_checkpoint/expected.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &log))
	for name, rules := range map[string]semantics.Rules{"HuggingFace": semantics.HuggingFace,
		"Default": semantics.Default} {
		t.Run(name, func(t *testing.T) {
			dir := hfCheckpoint(t)
			s, fit := transformersRun(t, rules, func(o *trainer.Options, _ *engine.Options) {
				o.OutputDir, o.ResumeFrom = dir, trainer.Latest
			})
			result, err := fit.Fit(t.Context(), hfCheckpointRows(g), nil)
			require.NoError(t, err)
			for _, p := range nn.StateDict(s.Model()) {
				golden.Recorded(t, p.Name, p.Tensor, g.Tensor("weights/"+p.Name))
			}
			moments, _, err := optim.ToPyTorch(s.Optimizer())
			require.NoError(t, err)
			for _, m := range moments {
				golden.Recorded(t, m.Name, m.Tensor, g.Tensor("moments/"+m.Name[len("state."):]))
			}
			golden.Bits(t, "the next random numbers", torch.Rand(4), g.Tensor("next"))
			rows := result.History[:len(log)]
			for i, want := range log {
				golden.RecordedNumbers(t, fmt.Sprintf("update %d", i+1), []float64{rows[i]["loss"],
					rows[i]["grad_norm"]}, []float64{parseHex(t, want.Loss), parseHex(t, want.GradNorm)})
				assert.InEpsilon(t, parseHex(t, want.LearnRate)+1, rows[i]["learning_rate"]+1, 1e-15)
			}
			assert.Equal(t, 9.0, rows[len(rows)-1]["step"])
		})
	}
}

// Files written for transformers are read as if transformers had written them, and the run ends
// like an uninterrupted one. Python's random states are passed through.
func TestFilesOfTransformersAreWritten(t *testing.T) {
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	rows := hfCheckpointRows(golden.Load(t, "testdata/hf_checkpoint/expected.safetensors"))
	whole := hfCheckpoint(t)
	end := func(dir string) string {
		s, fit := transformersRun(t, semantics.Default, func(o *trainer.Options, _ *engine.Options) {
			o.OutputDir, o.ResumeFrom, o.TransformersFiles = dir, trainer.Latest, true
		})
		_, err := fit.Fit(t.Context(), rows, nil)
		require.NoError(t, err)
		return fmt.Sprintf("%x", torchBytes(s))
	}
	want := end(whole)

	cut := t.TempDir()
	middle := filepath.Join(cut, "checkpoint-6")
	require.NoError(t, os.CopyFS(middle, os.DirFS(filepath.Join(whole, "checkpoint-6"))))
	for _, name := range []string{"MANIFEST.json", "gotrainer_state.json", "optimizer.safetensors",
		"rng_state.safetensors"} {
		require.NoError(t, os.Remove(filepath.Join(middle, name)), "what transformers does not write")
	}
	assert.Equal(t, want, end(cut), "from what transformers reads")

	for _, name := range []string{filepath.Join(whole, "checkpoint-9"), filepath.Join(cut, "checkpoint-9")} {
		got, generators, _, err := torchsave.ReadRandom(filepath.Join(name, "rng_state.pth"),
			torchsave.TransformersRandom)
		require.NoError(t, err)
		start, _, _, err := torchsave.ReadRandom("testdata/hf_checkpoint/checkpoint-3/rng_state.pth",
			torchsave.TransformersRandom)
		require.NoError(t, err)
		assert.Equal(t, start, got, "Python's generators, from which nothing was drawn")
		assert.NotEmpty(t, generators[torch.CPU])
	}
	a, err := torchsave.ReadFile(filepath.Join(whole, "checkpoint-9", "scheduler.pt"))
	require.NoError(t, err)
	assert.Equal(t, 9, a["last_epoch"])
	assert.Equal(t, 10, a["_step_count"])
	assert.Equal(t, []any{0.02, 0.02}, a["base_lrs"])
}

// moments returns the tensors of an optimizer.pt, by parameter and kind.
func moments(t *testing.T, state map[string]any) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	params, _ := state["state"].(map[int]any)
	for param, kinds := range params {
		for kind, v := range kinds.(map[string]any) { //nolint:forcetypeassert // a panic fails the test
			all[fmt.Sprint(param, ".", kind)] = v.(torch.Tensor).Bytes() //nolint:forcetypeassert // likewise
		}
	}
	require.NotEmpty(t, all)
	return all
}

func momentsOf(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	state, err := torchsave.ReadFile(filepath.Join(dir, "optimizer.pt"))
	require.NoError(t, err)
	defer torchsave.EachTensor(state, func(x torch.Tensor) { x.Free() })
	return moments(t, state)
}

// implementations of AdamW: in the state of one the steps are tensors, in that of the other
// numbers.
var implementations = []optim.Implementation{optim.Fused, optim.Foreach}

func TestAsyncSavesHoldTheFilesOfTransformersToo(t *testing.T) {
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	rows := hfCheckpointRows(golden.Load(t, "testdata/hf_checkpoint/expected.safetensors"))
	for _, how := range implementations {
		var folders []string
		for _, async := range []bool{false, true} {
			dir := t.TempDir()
			folders = append(folders, dir)
			_, fit := transformersRun(t, semantics.Default, func(o *trainer.Options, e *engine.Options) {
				o.OutputDir, o.TransformersFiles, o.AsyncSave = dir, true, async
				e.Optimizer = optim.AdamW{LR: 0.02, WeightDecay: new(0.1), Implementation: how}
			})
			_, err := fit.Fit(t.Context(), rows, nil)
			require.NoError(t, err)
		}
		for _, name := range []string{"checkpoint-3", "checkpoint-6", "checkpoint-9"} {
			waited, beside := filepath.Join(folders[0], name), filepath.Join(folders[1], name)
			assert.Equal(t, momentsOf(t, waited), momentsOf(t, beside), "%v %s", how, name)
			require.NoError(t, checkpoint.Verify(beside))
		}
	}
}

func TestTheOptimizerOfTransformersIsWrittenOfTheCopyAndNotInTheLoop(t *testing.T) {
	testenv.RequireTorch(t)
	rows := hfCheckpointRows(golden.Load(t, "testdata/hf_checkpoint/expected.safetensors"))
	for _, how := range implementations {
		s, fit := transformersRun(t, semantics.Default, func(_ *trainer.Options, e *engine.Options) {
			e.Optimizer = optim.AdamW{LR: 0.02, Implementation: how}
		})
		_, err := fit.Fit(t.Context(), rows, nil)
		require.NoError(t, err)
		state, err := torchsave.StateDict(s.Optimizer(), 0.01)
		require.NoError(t, err)
		want := moments(t, state)

		dir := t.TempDir()
		var later []func() ([]string, error)
		o := trainer.SaveOptions{Later: func(write func() ([]string, error)) { later = append(later, write) }}
		require.NoError(t, s.Save(dir, o))
		require.NoError(t, s.SaveTransformers(dir, trainer.SchedulePosition{Moves: 9, Peak: 0.02, Next: 0.01}, o))
		assert.NoFileExists(t, filepath.Join(dir, "optimizer.pt"))
		assert.FileExists(t, filepath.Join(dir, "scheduler.pt"))

		for _, m := range s.Optimizer().State() { // training continues
			torch.NoGrad(func() { m.Tensor.Fill_(7) })
		}
		for _, write := range later {
			bad, err := write()
			require.NoError(t, err)
			assert.Empty(t, bad)
		}
		assert.Equal(t, want, momentsOf(t, dir))
		require.NoError(t, s.EmptyCache())
	}
}

// torchBytes returns everything that a run has changed.
func torchBytes(s *tagStep) (all []byte) {
	for _, p := range nn.StateDict(s.Model()) {
		all = append(all, p.Tensor.Bytes()...)
	}
	for _, p := range s.Optimizer().State() {
		all = append(all, p.Tensor.Bytes()...)
	}
	return append(all, torch.DefaultGenerator(torch.CPU).State()...)
}

func TestSettingsOfTransformersThatDifferAreWarnedOf(t *testing.T) {
	testenv.RequireTorch(t)
	var warnings []string
	dir := hfCheckpoint(t)
	_, fit := transformersRun(t, semantics.Default, func(o *trainer.Options, e *engine.Options) {
		o.ResumeFrom = filepath.Join(dir, "checkpoint-3")
		e.Optimizer = optim.AdamW{LR: 0.02, WeightDecay: new(0.3)}
		e.Warn = func(text string) { warnings = append(warnings, text) }
	})
	g := golden.Load(t, "testdata/hf_checkpoint/expected.safetensors")
	_, err := fit.Fit(t.Context(), hfCheckpointRows(g), nil)
	require.NoError(t, err)
	assert.Equal(t, []string{"optimizer.pt was made with weight_decay 0.1 in group 0, and this run has 0.3: the " +
		"run's value applies"}, warnings)
}

// Checkpoints that do not fit are refused, and nothing is changed.
func TestCheckpointsOfTransformersThatDoNotFit(t *testing.T) {
	testenv.RequireTorch(t)
	g := golden.Load(t, "testdata/hf_checkpoint/expected.safetensors")
	remove := func(name string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			require.NoError(t, os.Remove(filepath.Join(dir, name)))
		}
	}
	write := func(name, content string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
		}
	}
	for _, c := range []struct {
		claim  string
		damage func(t *testing.T, dir string)
		change func(*trainer.Options, *engine.Options)
		want   string
	}{
		{"no schedule", remove("scheduler.pt"), nil, "scheduler.pt"},
		{"several processes", remove("rng_state.pth"), nil, "it was made by several processes, and this is one"},
		{"no weights", remove("model.safetensors"), nil, "model.safetensors"},
		{"weights alone", remove("optimizer.pt"), nil, "weights"},
		{"a damaged optimizer", write("optimizer.pt", "PK"), nil, "optimizer.pt"},
		{"a damaged state", write("trainer_state.json", "{"), nil, "trainer_state.json"},
		{"negative steps", write("trainer_state.json", `{"global_step": -1}`), nil, "its global_step is -1"},
		{"damaged weights", write("model.safetensors", "12345678{}"), nil, "model.safetensors"},
		{"another optimizer", nil, func(_ *trainer.Options, e *engine.Options) {
			e.Optimizer = optim.SGD{LR: 0.02, Momentum: 0.9}
		}, "it must have the optimizer and the groups of parameters of this run"},
		{"one group", nil, func(_ *trainer.Options, e *engine.Options) {
			e.Groups = func(_ any, params []torch.Named) []optim.Group { return []optim.Group{{Params: params}} }
		}, "rates of 2 groups, and the optimizer has 1"},
		{"another batch size", nil, func(o *trainer.Options, _ *engine.Options) { o.BatchSize = 5 },
			"BatchSize was 4 and is 5"},
		{"a schedule that follows", nil, func(o *trainer.Options, _ *engine.Options) {
			o.Schedule, o.Adaptive = nil, lr.ReduceLROnPlateau{}
		}, "the state of a schedule that follows the evaluations is not read"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			dir := filepath.Join(hfCheckpoint(t), "checkpoint-3")
			if c.damage != nil {
				c.damage(t, dir)
			}
			s, fit := transformersRun(t, semantics.Default, func(o *trainer.Options, e *engine.Options) {
				o.ResumeFrom = dir
				if c.change != nil {
					c.change(o, e)
				}
			})
			before := weightBytes(s)
			_, err := fit.Fit(t.Context(), hfCheckpointRows(g), hfCheckpointRows(g))
			require.ErrorContains(t, err, c.want)
			assert.Equal(t, before, weightBytes(s), "the weights")
			assert.Empty(t, s.Optimizer().State(), "moments")
		})
	}
}

func weightBytes(s *tagStep) (all []byte) {
	for _, p := range nn.StateDict(s.Model()) {
		all = append(all, p.Tensor.Bytes()...)
	}
	return all
}

func TestTransformersFilesAreRefusedWhereTheyCannotBe(t *testing.T) {
	testenv.RequireTorch(t)
	s, err := engine.New(tag(newTagger(0)), engine.Options{})
	require.NoError(t, err)
	for claim, o := range map[string]trainer.Options{
		"no checkpoint is written": {},
		"SaveOnlyModel leaves":     {OutputDir: t.TempDir(), SaveOnlyModel: true},
		"Adaptive is set":          {OutputDir: t.TempDir(), Adaptive: lr.ReduceLROnPlateau{}},
	} {
		o.TransformersFiles = true
		_, err := trainer.New(s, quiet(o))
		require.ErrorContains(t, err, claim)
		var option *trainer.OptionError
		assert.ErrorAs(t, err, &option)
	}
}
