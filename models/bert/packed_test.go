package bert_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/bert"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/distilbert"
	"github.com/gotrainer/gotrainer/models/roberta"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

type packs interface {
	classify.Model
	SetPaddingFree(on bool)
}

// classifiers returns the classifiers of packages bert, roberta and distilbert, and relevant
// variants of them.
func classifiers(t *testing.T, dropout float64) map[string]packs {
	t.Helper()
	torch.ManualSeed(3)
	c := bert.Config{VocabSize: 30, HiddenSize: 16, NumLayers: 2, NumHeads: 2, IntermediateSize: 32, MaxPositions: 20,
		HiddenDropout: &dropout, AttentionDropout: &dropout}
	made := map[string]packs{}
	keep := func(name string, m packs, err error) {
		require.NoError(t, err)
		made[name] = m
	}
	b, err := bert.NewClassifier(c)
	keep("BERT", b, err)
	untyped, err := bert.NewClassifier(c)
	require.NoError(t, err)
	untyped.IgnoreTokenTypes(true)
	keep("BERT of Hezar", untyped, err)
	r, err := roberta.NewClassifier(c)
	keep("RoBERTa", r, err)
	d, err := distilbert.NewClassifier(distilbert.Config{VocabSize: 30, Dim: 16, NumLayers: 2, NumHeads: 2,
		HiddenDim: 32, MaxPositions: 20, Dropout: &dropout, AttentionDropout: &dropout, ClassifierDropout: &dropout})
	keep("DistilBERT", d, err)
	c.Attention = transformer.Eager
	e, err := bert.NewClassifier(c)
	keep("BERT, eager attention", e, err)
	return made
}

func TestWithoutPaddingClassifiersLearnTheSame(t *testing.T) {
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	models := classifiers(t, 0)
	names := slices.Sorted(maps.Keys(models))
	rapid.Check(t, func(rt *rapid.T) {
		name := rapid.SampledFrom(names).Draw(rt, "model")
		m := models[name]
		task, err := classify.NewTask(m, classify.TaskOptions{})
		require.NoError(rt, err)
		var samples []classify.Sample
		for i := range rapid.IntRange(1, 6).Draw(rt, "texts") {
			s := classify.Sample{InputIDs: rapid.SliceOfN(rapid.Int64Range(0, 29), 1, 18).Draw(rt, "ids"),
				Label: int64(i % 2)}
			if name != "DistilBERT" && i%2 == 0 {
				s.TokenTypeIDs = rapid.SliceOfN(rapid.Int64Range(0, 1), len(s.InputIDs),
					len(s.InputIDs)).Draw(rt, "types")
			}
			samples = append(samples, s)
		}
		b, err := task.Collate(samples)
		require.NoError(rt, err)
		learn := func(free bool) (loss float64, grads []torch.Tensor) {
			m.SetPaddingFree(free)
			value := task.Loss(engine.ForwardPass{}, b).Value
			value.Backward()
			for _, p := range nn.Params(m) {
				grads = append(grads, p.Tensor.Grad())
				p.Tensor.SetGrad(torch.Tensor{})
			}
			return value.Item(), grads
		}
		torch.Scope(func() {
			want, wantGrads := learn(false)
			got, gotGrads := learn(true)
			assert.InDelta(rt, want, got, 1e-6, name)
			for i, p := range nn.Params(m) {
				require.Equal(rt, wantGrads[i].Defined(), gotGrads[i].Defined(), p.Name)
				if wantGrads[i].Defined() {
					golden.Close(t, name+": "+p.Name, gotGrads[i], wantGrads[i], 1e-5, 1e-6)
				}
			}
		})
	})
}

// Dropout hits other elements of the tokens, but the same number of them, so the means must agree.
func TestDropoutWithoutPaddingHasTheSameDistribution(t *testing.T) {
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	m := classifiers(t, 0.3)["BERT"]
	task, err := classify.NewTask(m, classify.TaskOptions{})
	require.NoError(t, err)
	b, err := task.Collate([]classify.Sample{{InputIDs: []int64{1, 7, 3}}, {InputIDs: []int64{1, 5, 9, 2, 8, 4}},
		{InputIDs: []int64{2}, Label: 1}})
	require.NoError(t, err)
	draw := func(free bool) (mean, std torch.Tensor) {
		m.SetPaddingFree(free)
		var all []torch.Tensor
		torch.NoGrad(func() {
			for range 400 {
				all = append(all, task.Predict(engine.ForwardPass{}, b).Logits[0])
			}
		})
		list := torch.Stack(all, 0)
		return list.MeanDim([]int64{0}, false, torch.DefaultDType), list.StdDim([]int64{0}, true, false)
	}
	torch.Scope(func() {
		padded, spread := draw(false)
		packed, spreadPacked := draw(true)
		limit := torch.Values[float32](spread)
		got, want := torch.Values[float32](packed), torch.Values[float32](padded)
		for i, s := range torch.Values[float32](spreadPacked) {
			assert.InDelta(t, want[i], got[i], 6*float64(limit[i])/20*1.42) // six standard deviations of the difference
			assert.InEpsilon(t, limit[i], s, 0.3)
		}
	})
}
