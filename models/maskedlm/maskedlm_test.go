package maskedlm_test

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/maskedlm"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

func TestMain(m *testing.M) { os.Exit(testenv.Run(m)) }

// words is the smallest model that predicts masked words.
type words struct {
	Embedding *nn.Embedding `module:"embedding"`
	Out       *nn.Linear    `module:"out"`
}

func newWords() *words { return &words{nn.NewEmbedding(60, 4, nil), nn.NewLinear(4, 60, nil)} }

func (w *words) Forward(ids, _, _ torch.Tensor) torch.Tensor {
	return w.Out.Forward(w.Embedding.Forward(ids))
}
func (w *words) Head() classify.Head      { return classify.Head{} }
func (w *words) Limits() inputs.Limits    { return inputs.Limits{VocabSize: 60, MaxLength: 40} }
func (w *words) WriteConfig(string) error { return nil }

func newTask(t *testing.T, m maskedlm.Masking) *maskedlm.Task {
	t.Helper()
	task, err := maskedlm.NewTask(newWords(), maskedlm.TaskOptions{Masking: m, MaskTokenID: 4})
	require.NoError(t, err)
	return task
}

// maskCase is a case of the output of testdata/masks.py.
type maskCase struct {
	Name     string
	Settings struct {
		Probability *float64 `json:"mlm_probability"`
		Replace     *float64 `json:"mask_replace_prob"`
		Random      *float64 `json:"random_replace_prob"`
		WholeWord   bool     `json:"whole_word_mask"`
	}
	Seed    uint64
	Batches []struct {
		Samples []struct {
			IDs     []int64  `json:"input_ids"`
			Special []int64  `json:"special_tokens_mask"`
			Offsets [][2]int `json:"offset_mapping"`
		}
		IDs    []int64 `json:"input_ids"`
		Labels []int64
	}
	Next []float32
}

func TestMasksAreThoseOfTransformers(t *testing.T) {
	testenv.RequireTorch(t)
	file, err := os.ReadFile("testdata/masks.json")
	require.NoError(t, err)
	var cases []maskCase
	require.NoError(t, json.Unmarshal(file, &cases))
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			task := newTask(t, maskedlm.Masking{Probability: c.Settings.Probability, Replace: c.Settings.Replace,
				Random: c.Settings.Random, WholeWord: c.Settings.WholeWord, Seed: c.Seed})
			torch.ManualSeed(9)
			for i, b := range c.Batches {
				var samples []maskedlm.Sample
				for _, s := range b.Samples {
					sample := maskedlm.Sample{Text: inputs.Text{InputIDs: s.IDs}, SpecialTokensMask: s.Special}
					for _, o := range s.Offsets {
						sample.Offsets = append(sample.Offsets, text.Span{Start: o[0], End: o[1]})
					}
					samples = append(samples, sample)
				}
				batch, err := task.Collate(samples)
				require.NoError(t, err)
				ids, labels := task.Mask(batch)
				require.Equal(t, b.IDs, torch.Values[int64](ids), "ids of batch %d", i)
				require.Equal(t, b.Labels, torch.Values[int64](labels), "labels of batch %d", i)
			}
			assert.Equal(t, c.Next, torch.Values[float32](torch.Rand(2)), "the default generator has another state")
		})
	}
}

// TestCheckpointHoldsTheGeneratorOfTheMasks checks that a continued run draws the same masks as an
// uninterrupted one.
func TestCheckpointHoldsTheGeneratorOfTheMasks(t *testing.T) {
	testenv.RequireTorch(t)
	torch.ManualSeed(1)
	samples := []maskedlm.Sample{{Text: inputs.Text{InputIDs: []int64{2, 9, 8, 7, 6, 5, 9, 9, 3}},
		SpecialTokensMask: []int64{1, 0, 0, 0, 0, 0, 0, 0, 1}}}
	newStep := func() (*maskedlm.Task, *engine.Step[maskedlm.Sample, maskedlm.Batch]) {
		task := newTask(t, maskedlm.Masking{Seed: 5, Probability: new(0.5)})
		step, err := engine.New(task, engine.Options{Optimizer: optim.SGD{LR: 0.1}})
		require.NoError(t, err)
		return task, step
	}
	task, step := newStep()
	batch, err := task.Collate(samples)
	require.NoError(t, err)
	require.NoError(t, step.Train(t.Context(), batch, trainer.Window{Len: 1, Divisor: 1}))
	_, err = step.Update(t.Context(), 0.1)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, step.Save(dir, trainer.SaveOptions{}))
	want, _ := task.Mask(batch)

	again, resumed := newStep()
	require.NoError(t, resumed.Load(dir, trainer.LoadOptions{}))
	got, _ := again.Mask(batch)
	assert.Equal(t, torch.Values[int64](want), torch.Values[int64](got))

	global, err := engine.New(newTask(t, maskedlm.Masking{}), engine.Options{Optimizer: optim.SGD{LR: 0.1}})
	require.NoError(t, err)
	require.NoError(t, global.Save(dir, trainer.SaveOptions{}))
	require.ErrorContains(t, resumed.Load(dir, trainer.LoadOptions{}),
		`the state of the task's generator "masks" is missing`)
}

// narrow is a step with memory for only one text at a time.
type narrow struct {
	*engine.Step[maskedlm.Sample, maskedlm.Batch]
}

func (n narrow) Train(ctx context.Context, b maskedlm.Batch, w trainer.Window) error {
	if b.InputIDs.Rows > 1 {
		return torch.ErrOutOfMemory
	}
	return n.Step.Train(ctx, b, w)
}

// If a batch is trained text by text, texts without masked tokens contribute nothing.
func TestTextsWithoutAMaskAddNothingToABatchInParts(t *testing.T) {
	testenv.RequireTorch(t)
	half := 0.5
	var texts data.Slice[maskedlm.Sample]
	for i := range int64(16) {
		texts = append(texts, maskedlm.Sample{Text: inputs.Text{InputIDs: []int64{2, 10 + i, 3}},
			SpecialTokensMask: []int64{1, 0, 1}})
	}
	for _, smoothing := range []float64{0, 0.1} {
		task := newTask(t, maskedlm.Masking{Probability: &half, Seed: 3})
		s, err := engine.New(task, engine.Options{LabelSmoothing: smoothing})
		require.NoError(t, err)
		fit, err := trainer.New(trainer.Step[maskedlm.Sample, maskedlm.Batch](narrow{s}), trainer.Options{BatchSize: 16,
			Epochs: 1, DivideOnOutOfMemory: true, Progress: io.Discard})
		require.NoError(t, err)
		_, err = fit.Fit(t.Context(), texts, nil)
		require.NoError(t, err)
		names, err := s.NonFinite()
		require.NoError(t, err)
		assert.Empty(t, names)
	}
}

func TestMistakesAreNamed(t *testing.T) {
	testenv.RequireTorch(t)
	for want, o := range map[string]maskedlm.TaskOptions{
		"Masking.Probability is 1.5": {MaskTokenID: 4, Masking: maskedlm.Masking{Probability: new(1.5)}},
		"want a sum of at most 1":    {MaskTokenID: 4, Masking: maskedlm.Masking{Random: new(0.3)}},
		"Masking.WholeWord replaces every masked": {MaskTokenID: 4, Masking: maskedlm.Masking{WholeWord: true,
			Random: new(0.1)}},
		"MaskTokenID is 0": {},
		"VocabSize is 70":  {MaskTokenID: 4, VocabSize: 70},
	} {
		_, err := maskedlm.NewTask(newWords(), o)
		require.ErrorContains(t, err, want)
	}
	task := newTask(t, maskedlm.Masking{WholeWord: true})
	ids := inputs.Text{InputIDs: []int64{2, 9, 3}}
	_, err := task.Collate([]maskedlm.Sample{{Text: ids}})
	require.ErrorContains(t, err, "SpecialTokensMask has 0 numbers for 3 tokens")
	_, err = task.Collate([]maskedlm.Sample{{Text: ids, SpecialTokensMask: []int64{1, 0, 1}}})
	require.ErrorContains(t, err, "Offsets has 0 stretches for 3 tokens")
}
