package roberta_test

import (
	"os"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/models/roberta"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

func tiny() roberta.Config {
	return roberta.Config{VocabSize: 50, HiddenSize: 24, NumLayers: 2, NumHeads: 3, IntermediateSize: 40,
		MaxPositions: 20, Head: roberta.Head{NumLabels: 3}}
}

func newClassifier(t *testing.T, c roberta.Config) *roberta.Classifier {
	t.Helper()
	torch.ManualSeed(42)
	m, err := roberta.NewClassifier(c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestSameSeedGivesTransformersWeights(t *testing.T) {
	modeltest.Load(t, "roberta").SameInitial(t, func() (modeltest.Model, error) {
		return roberta.NewClassifier(tiny())
	})
}

func TestForwardAndBackwardHaveTransformersBits(t *testing.T) {
	modeltest.Load(t, "roberta").Run(t, func(c modeltest.Case) (modeltest.Model, error) {
		config := tiny()
		config.HiddenDropout, config.AttentionDropout, config.ClassifierDropout = &c.Dropout, &c.Dropout,
			c.ClassifierDropout
		config.HiddenAct, config.Attention, config.Head = c.Act, c.Attention, c.Head()
		return roberta.NewClassifier(config)
	})
}

func TestSavedModelLoads(t *testing.T) {
	testenv.RequireTorch(t)
	modeltest.SavedModelLoads(t, newClassifier(t, tiny()), func(dir string) (*roberta.Classifier, *pretrained.Report,
		error) {
		return roberta.LoadClassifier(dir, roberta.Head{})
	})
}

// TestSettingsThatAreNotSupportedAreRefused checks settings that would change what the model
// computes.
func TestSettingsThatAreNotSupportedAreRefused(t *testing.T) {
	modeltest.Refuses(t, "roberta", map[string]string{
		`"is_decoder": true`:                        "is_decoder is true; only false",
		`"add_cross_attention": true`:               "add_cross_attention is true",
		`"position_embedding_type": "relative_key"`: `position_embedding_type is "relative_key"`,
		`"hidden_act": "gelu_10"`:                   `no activation "gelu_10"`,
		`"pad_token_id": null`:                      "PadTokenID is -1, none",
		`"hidden_size": "large"`:                    `hidden_size is "large"`,
	}, func(dir string) error {
		_, _, err := roberta.LoadClassifier(dir, roberta.Head{})
		return err
	})
	for want, c := range map[string]roberta.Config{
		"no multiple of the 7 heads": {NumHeads: 7},
		"HiddenDropout is 1":         {HiddenDropout: new(1.0)},
		"NumLayers is -1":            {NumLayers: -1},
		"MaxPositions is 2":          {MaxPositions: 2},
		"PadTokenID is 60":           {VocabSize: 50, PadTokenID: new(int64(60))},
		`"flash"`:                    {Attention: "flash"},
	} {
		if _, err := roberta.NewClassifier(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

func TestLimitsAreThoseOfThePositions(t *testing.T) {
	testenv.RequireTorch(t)
	if got := newClassifier(t, tiny()).Limits().MaxLength; got != 18 {
		t.Errorf("a text may have %d tokens, want 18", got)
	}
}

func TestNewStepTakesTheClassifier(t *testing.T) {
	testenv.RequireTorch(t)
	torch.Scope(func() {
		step, err := roberta.NewStep(newClassifier(t, tiny()), engine.Options{Optimizer: optim.SGD{LR: 0.1}})
		if err != nil {
			t.Fatal(err)
		}
		batch, err := step.Collate([]roberta.Sample{{InputIDs: []int64{2, 7, 3}, Label: 1}, {InputIDs: []int64{2, 3}}})
		if err != nil {
			t.Fatal(err)
		}
		if batch.InputIDs.Rows != 2 || batch.InputIDs.Width != 3 {
			t.Errorf("the batch has %d rows of %d tokens, want 2 of 3", batch.InputIDs.Rows, batch.InputIDs.Width)
		}
	})
}
