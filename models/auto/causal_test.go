package auto_test

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/gpt2"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// newWriter returns a model whose logits differ so much that no token is chosen because of
// rounding.
func newWriter(t *testing.T, a transformer.Attention) *auto.CausalLanguageModel {
	t.Helper()
	testenv.RequireTorch(t)
	torch.ManualSeed(1)
	m, err := auto.NewCausalLM(gpt2.Config{VocabSize: 50, MaxPositions: 24, HiddenSize: 16, NumLayers: 3, NumHeads: 2,
		InitializerRange: 0.5, EOSTokenIDs: []int64{}, Attention: a}, nil)
	require.NoError(t, err)
	return m
}

// slowly continues a text with a whole forward pass for each token.
func slowly(m *auto.CausalLanguageModel, prompt []int64, n int) (added []int64) {
	nn.Evaluating(m, func() {
		torch.NoGrad(func() {
			ids := append([]int64(nil), prompt...)
			for range n {
				torch.Scope(func() {
					logits := m.Forward(torch.From(ids, 1, int64(len(ids))), torch.Tensor{}, torch.Tensor{})
					next := int64(logits.Select(1, int64(len(ids))-1).ArgMax(-1, false).Item())
					ids, added = append(ids, next), append(added, next)
				})
			}
		})
	})
	return added
}

func TestWhatIsKeptOfATextMakesNoDifference(t *testing.T) {
	for _, a := range []transformer.Attention{transformer.SDPA, transformer.Eager} {
		m := newWriter(t, a)
		for _, prompt := range [][]int64{{7}, {3, 14, 15, 9, 2, 6}} {
			got, err := m.GenerateIDs(t.Context(), prompt, auto.Generation{MaxNewTokens: 18})
			require.NoError(t, err)
			require.Equal(t, slowly(m, prompt, 18), got, "%s, a prompt of %d tokens", a, len(prompt))
		}
		assert.True(t, m.Training(), "the mode is restored")
	}
}

func TestATextEndsAtItsEndAndWhereTheModelHasNoMorePositions(t *testing.T) {
	m := newWriter(t, "")
	prompt := []int64{3, 14, 15}
	whole, err := m.GenerateIDs(t.Context(), prompt, auto.Generation{MaxNewTokens: 1000})
	require.NoError(t, err)
	require.Len(t, whole, 24-3)
	end := whole[4]
	ended, err := m.GenerateIDs(t.Context(), prompt, auto.Generation{MaxNewTokens: 1000, EOSTokenIDs: []int64{end}})
	require.NoError(t, err)
	for i, id := range whole {
		if id == end {
			require.Equal(t, whole[:i+1], ended)
			break
		}
	}
	short, err := m.GenerateIDs(t.Context(), prompt, auto.Generation{})
	require.NoError(t, err)
	require.Equal(t, whole[:20], short)

	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	_, err = m.GenerateIDs(ctx, prompt, auto.Generation{})
	require.EqualError(t, err, "enough")
}

// TestDrawnTokensHaveTheirProbabilities checks the frequencies of the tokens that may be drawn, and
// that no others are drawn.
func TestDrawnTokensHaveTheirProbabilities(t *testing.T) {
	m := newWriter(t, "")
	torch.NoGrad(func() { m.InputEmbeddings().Weight.MulScalar_(0.5) }) // makes the logits differ less
	prompt := []int64{3, 14, 15}
	var p []float64
	nn.Evaluating(m, func() {
		torch.NoGrad(func() {
			logits := m.Forward(torch.From(prompt, 1, 3), torch.Tensor{}, torch.Tensor{}).Select(1, 2)
			p = torch.Values[float64](logits.DivScalar(0.8).Softmax(-1, torch.Float64))
		})
	})
	const draws = 2000
	for name, g := range map[string]auto.Generation{
		"all":     {TopK: -1},
		"top 5":   {TopK: 5},
		"half":    {TopK: -1, TopP: 0.5},
		"nothing": {TopK: -1, TopP: 1e-9},
	} {
		t.Run(name, func(t *testing.T) {
			g.Sample, g.Temperature, g.MaxNewTokens, g.Generator = true, 0.8, 1, torch.NewGenerator(5)
			counts := make([]float64, len(p))
			for range draws {
				ids, err := m.GenerateIDs(t.Context(), prompt, g)
				require.NoError(t, err)
				counts[ids[0]]++
			}
			total := 0.0 // sum over the tokens that may be drawn
			may := make([]bool, len(p))
			for i := range p {
				rank, above := 0, 0.0
				for j := range p {
					if p[j] > p[i] {
						rank, above = rank+1, above+p[j]
					}
				}
				may[i] = (g.TopK < 0 || rank < g.TopK) && (g.TopP == 0 || rank == 0 || above < g.TopP)
				if may[i] {
					total += p[i]
				}
			}
			for i := range p {
				if !may[i] {
					assert.Zero(t, counts[i], "token %d", i)
					continue
				}
				want := p[i] / total
				assert.InDelta(t, want, counts[i]/draws, 5*math.Sqrt(want*(1-want)/draws)+1e-9, "token %d", i)
			}
		})
	}
}

func TestGenerationRefusesWhatCannotBe(t *testing.T) {
	m := newWriter(t, "")
	for words, g := range map[string]auto.Generation{
		"MaxNewTokens is -1":       {MaxNewTokens: -1},
		"set Sample":               {Temperature: 0.7},
		"Temperature is -1":        {Sample: true, Temperature: -1},
		"Temperature is NaN":       {Sample: true, Temperature: math.NaN()},
		"TopK is -2":               {Sample: true, TopK: -2},
		"TopP is 1.5":              {Sample: true, TopP: 1.5},
		"RepetitionPenalty is -1":  {RepetitionPenalty: -1},
		"RepetitionPenalty is NaN": {RepetitionPenalty: math.NaN()},
	} {
		_, err := m.GenerateIDs(t.Context(), []int64{1}, g)
		require.ErrorContains(t, err, words)
	}
	for words, prompt := range map[string][]int64{
		"it has no tokens":       {},
		"has the id 50":          {50},
		"all that the model has": make([]int64, 24),
		"has positions for 24":   make([]int64, 25),
	} {
		_, err := m.GenerateIDs(t.Context(), prompt, auto.Generation{})
		require.ErrorContains(t, err, words)
	}
	_, err := m.Generate(t.Context(), "Once", auto.Generation{})
	require.ErrorContains(t, err, "the model has no tokenizer; set Model.Tokenizer")
}
