package bert_test

import (
	"os"
	"testing"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/bert"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/torch"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

func tiny() bert.Config {
	return bert.Config{VocabSize: 50, HiddenSize: 24, NumLayers: 2, NumHeads: 3, IntermediateSize: 40, MaxPositions: 20,
		Head: bert.Head{NumLabels: 3}}
}

func newClassifier(t *testing.T, c bert.Config) *bert.Classifier {
	t.Helper()
	torch.ManualSeed(42)
	m, err := bert.NewClassifier(c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func newModel(t *testing.T) *bert.Model {
	t.Helper()
	torch.ManualSeed(42)
	m, err := bert.New(tiny())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestSameSeedGivesTransformersWeights(t *testing.T) {
	modeltest.Load(t, "bert").SameInitial(t, func() (modeltest.Model, error) { return bert.NewClassifier(tiny()) })
}

func TestSameSeedGivesTransformersEncoder(t *testing.T) {
	g := modeltest.Load(t, "bert")
	m := newModel(t)
	if modeltest.Generator() != g.BaseGenerator {
		t.Error("the generator has another state than transformers' after the encoder was made")
	}
	modeltest.SameWeights(t, m, g.Base)
}

func TestForwardAndBackwardHaveTransformersBits(t *testing.T) {
	modeltest.Load(t, "bert").Run(t, func(c modeltest.Case) (modeltest.Model, error) {
		config := tiny()
		config.HiddenDropout, config.AttentionDropout, config.ClassifierDropout = &c.Dropout, &c.Dropout,
			c.ClassifierDropout
		config.HiddenAct, config.Attention, config.Head = c.Act, c.Attention, c.Head()
		return bert.NewClassifier(config)
	})
}
