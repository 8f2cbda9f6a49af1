package bart_test

import (
	"encoding/json"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// TestClassifiersHaveTransformersBits compares BartForSequenceClassification and
// MBartForSequenceClassification.
func TestClassifiersHaveTransformersBits(t *testing.T) {
	_, file := load(t)
	var f struct {
		Classifiers []struct {
			Name, Generator string
			Config          map[string]any
			Labels          int64
			Initial         map[string]string
			Case            modeltest.CausalCase
		}
	}
	require.NoError(t, json.Unmarshal(read(t, "testdata/bart.json"), &f))
	require.Len(t, f.Classifiers, 2)
	for _, r := range f.Classifiers {
		t.Run(r.Name, func(t *testing.T) {
			goldencount.Start(t, "models", r.Name)
			torch.ManualSeed(42)
			m, err := auto.SequenceClassification(t.Context(), modeltest.ConfigFolder(t, r.Config), auto.Options{
				FromConfig: true, Warnings: io.Discard})
			require.NoError(t, err)
			if testenv.SameBits() {
				assert.Equal(t, r.Generator, modeltest.Generator(), "the generator has another state")
			}
			assert.Equal(t, r.Labels, m.Head().NumLabels)
			modeltest.SameWeights(t, m, r.Initial)
			var texts []classify.Sample
			for i, s := range modeltest.PairRows(file)[:4] {
				texts = append(texts, classify.Sample{InputIDs: append(s.InputIDs, end), Label: []int64{0, 1, 1, 0}[i]})
			}
			task := m.Task()
			b, err := task.Collate(texts)
			require.NoError(t, err)
			r.Case.Pass(t, m, file, func() engine.Outputs { return task.Predict(engine.ForwardPass{}, b) },
				func(o engine.Outputs) torch.Tensor { return task.LossOf(engine.ForwardPass{}, o).Value })

			dir := t.TempDir()
			require.NoError(t, m.Save(dir))
			again, err := auto.SequenceClassification(t.Context(), dir, auto.Options{Warnings: io.Discard})
			require.NoError(t, err)
			assert.Empty(t, again.Report.Unexpected)
			modeltest.SameWeights(t, again, r.Initial)
			err = torch.Try(func() { m.Forward(torch.From([]int64{5, 6}, 1, 2), torch.Tensor{}, torch.Tensor{}) })
			require.ErrorContains(t, err, "no token that ends it, one of [60]")
		})
	}
}
