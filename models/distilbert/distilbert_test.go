package distilbert_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/distilbert"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

func tiny() distilbert.Config {
	return distilbert.Config{VocabSize: 50, Dim: 24, NumLayers: 2, NumHeads: 3, HiddenDim: 40, MaxPositions: 20,
		Head: distilbert.Head{NumLabels: 3}}
}

func newClassifier(t *testing.T, c distilbert.Config) *distilbert.Classifier {
	t.Helper()
	torch.ManualSeed(42)
	m, err := distilbert.NewClassifier(c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestSameSeedGivesTransformersWeights(t *testing.T) {
	modeltest.Load(t, "distilbert").SameInitial(t, func() (modeltest.Model, error) {
		return distilbert.NewClassifier(tiny())
	})
}

func TestForwardAndBackwardHaveTransformersBits(t *testing.T) {
	modeltest.Load(t, "distilbert").Run(t, func(c modeltest.Case) (modeltest.Model, error) {
		config := tiny()
		config.Dropout, config.AttentionDropout, config.ClassifierDropout = &c.Dropout, &c.Dropout, c.ClassifierDropout
		config.Activation, config.Attention, config.Head = c.Act, c.Attention, c.Head()
		return distilbert.NewClassifier(config)
	})
}

func TestSavedModelLoads(t *testing.T) {
	testenv.RequireTorch(t)
	modeltest.SavedModelLoads(t, newClassifier(t, tiny()), func(dir string) (*distilbert.Classifier, *pretrained.Report,
		error) {
		return distilbert.LoadClassifier(dir, distilbert.Head{})
	})
}

// TestSettingsThatAreNotSupportedAreRefused checks settings that would change what the model
// computes.
func TestSettingsThatAreNotSupportedAreRefused(t *testing.T) {
	modeltest.Refuses(t, "distilbert", map[string]string{
		`"sinusoidal_pos_embds": true`: "sinusoidal_pos_embds is true; only false",
		`"is_decoder": true`:           "is_decoder is true; only false",
		`"activation": "gelu_10"`:      `no activation "gelu_10"`,
		`"dim": "large"`:               `dim is "large"`,
		`"dim": 8, "hidden_size": 16`:  "dim is 8, but hidden_size, which means the same, is 16",
	}, func(dir string) error {
		_, _, err := distilbert.LoadClassifier(dir, distilbert.Head{})
		return err
	})
	for want, c := range map[string]distilbert.Config{
		"7 heads do not divide Dim": {NumHeads: 7},
		"Dropout is 1":              {Dropout: new(1.0)},
		"NumLayers is -1":           {NumLayers: -1},
		"PadTokenID is 60":          {VocabSize: 50, PadTokenID: new(int64(60))},
		`"flash"`:                   {Attention: "flash"},
	} {
		if _, err := distilbert.NewClassifier(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

// TestSettingsMayHaveTheNamesOfOtherModels checks transformers' attribute_map.
func TestSettingsMayHaveTheNamesOfOtherModels(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"model_type": "distilbert", "hidden_size": 24,
		"num_attention_heads": 3, "num_hidden_layers": 2, "n_layers": 2}`), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := distilbert.ReadConfig(dir)
	if err != nil || c.Dim != 24 || c.NumHeads != 3 || c.NumLayers != 2 || len(c.Extra) != 0 {
		t.Errorf("%+v, error %v", c, err)
	}
}

func TestLimitsAreThoseOfThePositions(t *testing.T) {
	testenv.RequireTorch(t)
	if got := newClassifier(t, tiny()).Limits().MaxLength; got != 20 {
		t.Errorf("a text may have %d tokens, want 20", got)
	}
}

func TestNewStepTakesTheClassifier(t *testing.T) {
	testenv.RequireTorch(t)
	torch.Scope(func() {
		step, err := distilbert.NewStep(newClassifier(t, tiny()), engine.Options{Optimizer: optim.SGD{LR: 0.1}})
		if err != nil {
			t.Fatal(err)
		}
		batch, err := step.Collate([]distilbert.Sample{{InputIDs: []int64{2, 7, 3}, Label: 1},
			{InputIDs: []int64{2, 3}}})
		if err != nil {
			t.Fatal(err)
		}
		if batch.InputIDs.Rows != 2 || batch.InputIDs.Width != 3 {
			t.Errorf("the batch has %d rows of %d tokens, want 2 of 3", batch.InputIDs.Rows, batch.InputIDs.Width)
		}
	})
}
