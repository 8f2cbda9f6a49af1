package roberta_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/models/roberta"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

func tiny() roberta.Config {
	return roberta.Config{VocabSize: 50, HiddenSize: 24, NumLayers: 2, NumHeads: 3, IntermediateSize: 40, MaxPositions: 20, Head: roberta.Head{NumLabels: 3}}
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
	g := modeltest.Load(t, "roberta")
	m := newClassifier(t, tiny())
	if modeltest.Generator() != g.Generator {
		t.Error("the generator stands elsewhere than transformers' after the model was made")
	}
	g.Names(t, m)
	modeltest.SameWeights(t, m, g.Initial)
}

func TestForwardAndBackwardHaveTransformersBits(t *testing.T) {
	modeltest.Load(t, "roberta").Run(t, func(c modeltest.Case) (modeltest.Model, error) {
		config := tiny()
		config.HiddenDropout, config.AttentionDropout, config.ClassifierDropout = &c.Dropout, &c.Dropout, c.ClassifierDropout
		config.HiddenAct, config.Attention, config.Head = c.Act, c.Attention, c.Head()
		return roberta.NewClassifier(config)
	})
}

func TestSavedModelLoads(t *testing.T) {
	testenv.RequireTorch(t)
	m := newClassifier(t, tiny())
	dir := t.TempDir()
	if err := m.Save(dir); err != nil {
		t.Fatal(err)
	}
	again, report, err := roberta.LoadClassifier(dir, roberta.Head{})
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Missing)+len(report.Unexpected)+len(report.Initialized) > 0 {
		t.Errorf("the report is not empty:\n%s", report)
	}
	want := nn.StateDict(m)
	for i, got := range nn.StateDict(again) {
		golden.Bits(t, got.Name, got.Tensor, want[i].Tensor)
	}
	second := t.TempDir()
	if err := again.Save(second); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"config.json", "model.safetensors"} {
		a, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(second, name))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(a), string(b)); diff != "" {
			t.Errorf("%s, saved, loaded and saved:\n%s", name, diff)
		}
	}
}

// TestSettingsThatAreNotSupportedAreRefused: each would change what the model computes.
func TestSettingsThatAreNotSupportedAreRefused(t *testing.T) {
	for setting, want := range map[string]string{
		`"is_decoder": true`:                        "is_decoder is true; only false",
		`"add_cross_attention": true`:               "add_cross_attention is true",
		`"position_embedding_type": "relative_key"`: `position_embedding_type is "relative_key"`,
		`"hidden_act": "gelu_10"`:                   `no activation "gelu_10"`,
		`"pad_token_id": null`:                      "PadTokenID is -1, none",
		`"hidden_size": "large"`:                    `hidden_size is "large"`,
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"model_type": "roberta", `+setting+`}`), 0o600); err != nil {
			t.Fatal(err)
		}
		_, _, err := roberta.LoadClassifier(dir, roberta.Head{})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "config.json") {
			t.Errorf("%s: error %v, want one with %q and the path", setting, err, want)
		}
	}
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
