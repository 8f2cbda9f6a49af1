package engine_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// byHand averages the weights of a step after every update.
type byHand struct {
	*optim.Averaged
	updates int
}

func (h *byHand) StepEnd(*trainer.Run) error {
	h.Update()
	h.updates++
	return nil
}

// emaRun trains the tagger for two epochs of six updates with a checkpoint after every third.
func emaRun(t *testing.T, ema engine.EMA, o trainer.Options, hooks func(*tagStep) []any) (*tagStep, *trainer.Result) {
	t.Helper()
	testenv.RequireTorch(t)
	train, valid := hfData(golden.Load(t, "testdata/hf.safetensors"))
	torch.ManualSeed(9)
	s, err := engine.New[tokens, tokenBatch](&tagTask{newTagger(0.2)}, engine.Options{EMA: ema})
	require.NoError(t, err)
	o.Epochs, o.BatchSize = 2, 4
	if o.OutputDir != "" {
		o.Save = trainer.Every(3, trainer.Update)
	}
	if hooks != nil {
		o.Callbacks = hooks(s)
	}
	fit, err := trainer.New(s, quiet(o))
	require.NoError(t, err)
	r, err := fit.Fit(t.Context(), train, valid)
	require.NoError(t, err)
	return s, r
}

func averageBits(s *tagStep) (all string) {
	for _, a := range s.Average() {
		all += string(a.Tensor.Bytes())
	}
	return all
}

func TestTheAverageIsThatOfEveryUpdate(t *testing.T) {
	var hand *byHand
	s, _ := emaRun(t, engine.EMA{Decay: 0.9}, trainer.Options{}, func(s *tagStep) []any {
		hand = &byHand{Averaged: optim.NewAveraged(nn.Params(s.Model()), optim.Averaging{Decay: 0.9})}
		return []any{hand}
	})
	require.Equal(t, 12, hand.updates)
	for i, a := range s.Average() {
		golden.Bits(t, a.Name, a.Tensor, hand.Tensors()[i].Tensor)
	}
	plain, _ := emaRun(t, engine.EMA{}, trainer.Options{}, nil)
	assert.Equal(t, tagFingerprint(plain), tagFingerprint(s), "training does not depend on the average")
	assert.Nil(t, plain.Average())
}

func TestTheAverageSurvivesAResume(t *testing.T) {
	for name, ema := range map[string]engine.EMA{
		"beside the model": {Decay: 0.9, Evaluate: true}, "as the model": {Decay: 0.9, Evaluate: true, Save: true},
		"with buffers": {Decay: 0.9, Buffers: true, Save: true},
	} {
		for _, async := range []bool{false, true} {
			dir := t.TempDir()
			whole, _ := emaRun(t, ema, trainer.Options{OutputDir: dir, AsyncSave: async}, nil)
			for _, k := range []string{"3", "6", "9"} {
				part, _ := emaRun(t, ema, trainer.Options{ResumeFrom: filepath.Join(dir, "checkpoint-"+k)}, nil)
				assert.Equal(t, tagFingerprint(whole), tagFingerprint(part), "%s, async %t, from %s", name, async, k)
				assert.Equal(t, averageBits(whole), averageBits(part), "%s, async %t, from %s", name, async, k)
			}
		}
	}
}

// A checkpoint whose model is the average also continues from the trained weights in a run without
// an average.
func TestARunWithoutTheAverageContinuesFromTheTrainedWeights(t *testing.T) {
	dir := t.TempDir()
	whole, _ := emaRun(t, engine.EMA{Decay: 0.9, Save: true}, trainer.Options{OutputDir: dir}, nil)
	from := filepath.Join(dir, "checkpoint-6")
	part, r := emaRun(t, engine.EMA{}, trainer.Options{ResumeFrom: from}, nil)
	assert.Equal(t, tagFingerprint(whole), tagFingerprint(part))
	require.NotEmpty(t, r.Warnings)
	assert.Contains(t, r.Warnings[0], "EMA")
	part, _ = emaRun(t, engine.EMA{Decay: 0.9}, trainer.Options{ResumeFrom: from}, nil)
	assert.Equal(t, averageBits(whole), averageBits(part))
}

func TestEvaluationsUseTheAverage(t *testing.T) {
	s, _ := emaRun(t, engine.EMA{Decay: 0.9, Evaluate: true}, trainer.Options{}, nil)
	before := tagFingerprint(s)
	got, err := evaluate(t, s, trainer.Evaluation{}, batchOf(t, 3, 5))
	require.NoError(t, err)
	assert.Equal(t, before, tagFingerprint(s), "its own weights are back")

	other := newTagStep(t, engine.Options{})
	torch.NoGrad(func() {
		for i, p := range nn.Params(other.Model()) {
			p.Tensor.Copy_(s.Average()[i].Tensor)
		}
	})
	want, err := evaluate(t, other, trainer.Evaluation{}, batchOf(t, 3, 5))
	require.NoError(t, err)
	assert.Equal(t, want["loss"], got["loss"])

	// an evaluation that fails leaves nothing behind
	before = tagFingerprint(s)
	require.NoError(t, s.StartEval(trainer.Evaluation{}))
	require.NoError(t, s.Eval(t.Context(), batchOf(t, 3)))
	dir := t.TempDir()
	require.NoError(t, s.Save(dir, trainer.SaveOptions{}))
	assert.Equal(t, before, tagFingerprint(s))
}

func TestTheAverageIsSavedAsTheModel(t *testing.T) {
	dir := t.TempDir()
	s, r := emaRun(t, engine.EMA{Decay: 0.9, Evaluate: true, Save: true}, trainer.Options{OutputDir: dir}, nil)
	other := newTagStep(t, engine.Options{})
	_, err := nn.Load(filepath.Join(r.Checkpoint, "model.safetensors"), other.Model(), nn.LoadOptions{})
	require.NoError(t, err)
	for i, p := range nn.Params(other.Model()) {
		golden.Bits(t, p.Name, p.Tensor, s.Average()[i].Tensor)
	}
	// only the weights, as for the best model at the end, are the average, too
	require.NoError(t, s.Load(r.Checkpoint, trainer.LoadOptions{WeightsOnly: true}))
	for i, p := range nn.Params(s.Model()) {
		golden.Bits(t, p.Name, p.Tensor, nn.Params(other.Model())[i].Tensor)
	}
	dir = t.TempDir()
	require.NoError(t, s.Save(dir, trainer.SaveOptions{WeightsOnly: true}))
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, files, 1)
}

func TestAnAverageThatCannotBeIsRefused(t *testing.T) {
	testenv.RequireTorch(t)
	for _, c := range []struct {
		o    engine.Options
		want string
	}{
		{engine.Options{EMA: engine.EMA{Decay: 1}}, "EMA.Decay is 1"},
		{engine.Options{EMA: engine.EMA{Decay: math.NaN()}}, "EMA.Decay is NaN"},
		{engine.Options{EMA: engine.EMA{Save: true}}, "its Decay is 0"},
		{engine.Options{EMA: engine.EMA{Decay: 0.9}, Optimizer: optim.AdamWScheduleFree{}}, "leave EMA out"},
	} {
		_, err := engine.New[tokens, tokenBatch](&tagTask{newTagger(0)}, c.o)
		assert.ErrorContains(t, err, c.want)
	}
}

// byRow is a model whose weight is in files row by row, as a mixture of experts has each expert by
// itself.
type byRow struct {
	Linear *nn.Linear `module:"linear"`
}

func (*byRow) InFiles(state []torch.Named) (files []torch.Named) {
	for _, t := range state {
		if t.Name != "linear.weight" {
			files = append(files, t)
			continue
		}
		for i, row := range t.Tensor.Detach().Unbind(0) {
			files = append(files, torch.Named{Name: fmt.Sprintf("row.%d", i), Tensor: row})
		}
	}
	return files
}

func TestTheAverageIsSavedInTheFormOfFiles(t *testing.T) {
	testenv.RequireTorch(t)
	for _, ema := range []engine.EMA{{Decay: 0.9}, {Decay: 0.9, Save: true}} {
		torch.ManualSeed(3)
		model := &byRow{nn.NewLinear(3, 2, nil)}
		task := engine.TaskFunc(model, func(rows []float32) ([]float32, error) { return rows, nil },
			func(_ engine.ForwardPass, rows []float32) engine.Loss {
				y := model.Linear.Forward(torch.From(rows).Unsqueeze(1).Expand(-1, 3))
				return engine.Mean(y.Sum(torch.DefaultDType), len(rows))
			})
		s, err := engine.New(task, engine.Options{EMA: ema, Optimizer: optim.SGD{LR: 0.1}})
		require.NoError(t, err)
		dir := t.TempDir()
		fit, err := trainer.New(s, quiet(trainer.Options{OutputDir: dir, MaxSteps: 3, BatchSize: 1}))
		require.NoError(t, err)
		r, err := fit.Fit(t.Context(), data.Slice[float32]{1, 2, 3}, nil)
		require.NoError(t, err)

		trained, average := "model.safetensors", "ema.safetensors"
		if ema.Save {
			trained, average = "trained_model.safetensors", "model.safetensors"
		}
		for file, want := range map[string][]torch.Named{trained: nn.Params(model), average: s.Average()} {
			saved := &byRow{nn.NewLinear(3, 2, nil)}
			_, err = nn.Load(filepath.Join(r.Checkpoint, file), saved, nn.LoadOptions{})
			require.NoError(t, err)
			for i, p := range nn.Params(saved) {
				golden.Bits(t, file+": "+p.Name, p.Tensor, want[i].Tensor)
			}
		}
	}
}
