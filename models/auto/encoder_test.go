package auto_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// TestEncoderOfAModelWithAHead loads the encoder from the files of a model with a head. The names
// in the files have a prefix, the head is skipped, and a missing pooler is drawn with a warning.
// What is saved is complete. Package sentence compares encoders with transformers' AutoModel.
func TestEncoderOfAModelWithAHead(t *testing.T) {
	models, _ := predictors(t)
	for _, whole := range models[1:] { // MPNet and ELECTRA, in training mode
		dir, own := t.TempDir(), t.TempDir()
		require.NoError(t, whole.Save(dir))
		var told bytes.Buffer
		e, err := auto.Encoder(t.Context(), dir, auto.Options{Warnings: &told})
		require.NoError(t, err)
		assert.Contains(t, told.String(), "as "+e.Architecture())
		assert.EqualValues(t, 16, e.HiddenSize())
		kept := map[string]torch.Tensor{}
		for _, n := range nn.StateDict(whole.OwnModules()[0].Module) {
			kept[n.Name] = n.Tensor
		}
		for _, p := range nn.StateDict(e) {
			if want, ok := kept[p.Name]; ok {
				assert.Equal(t, want.Bytes(), p.Tensor.Bytes(), p.Name)
			} else {
				assert.Contains(t, p.Name, "pooler.")
				assert.Contains(t, e.Report.Initialized, p.Name)
			}
		}
		require.NoError(t, e.Save(own))
		again, err := auto.Encoder(t.Context(), own, auto.Options{Warnings: failing{t}})
		require.NoError(t, err)
		assert.Equal(t, hiddenOf(t, e), hiddenOf(t, again))
	}
}

// failing fails the test if loading writes a warning.
type failing struct{ t *testing.T }

func (f failing) Write(text []byte) (int, error) {
	f.t.Errorf("loading says: %s", text)
	return len(text), nil
}

// hiddenOf returns the hidden states of a text.
func hiddenOf(t *testing.T, m *auto.EncoderModel) (values []float32) {
	t.Helper()
	x, err := m.Encode(text.Single("we live in new york"), 0)
	require.NoError(t, err)
	cut, err := m.Encode(text.Single("we live in new york"), 4)
	require.NoError(t, err)
	assert.Len(t, x.InputIDs, 7)
	assert.Len(t, cut.InputIDs, 4)
	require.NoError(t, m.Evaluate(func(p engine.ForwardPass) {
		ids := engine.Input(p, x.InputIDs, 1, 7)
		hidden := m.Forward(ids, torch.Tensor{}, torch.Tensor{})
		assert.Equal(t, []int64{1, 7, 16}, hidden.Shape())
		values = torch.Values[float32](hidden)
	}))
	return values
}

func TestEncoderRefusesModelsOfTwoHalves(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"model_type": "t5"}`), 0o600))
	_, err := auto.Encoder(t.Context(), dir, auto.Options{})
	require.ErrorContains(t, err, `model_type is "t5"`)
}
