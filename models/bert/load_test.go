package bert_test

import (
	"testing"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/bert"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

func TestSavedModelLoads(t *testing.T) {
	testenv.RequireTorch(t)
	m := newClassifier(t, tiny())
	dir := t.TempDir()
	if err := m.Save(dir); err != nil {
		t.Fatal(err)
	}
	before := modeltest.Generator()
	again, report, err := bert.LoadClassifier(dir, bert.Head{})
	if err != nil {
		t.Fatal(err)
	}
	if modeltest.Generator() != before {
		t.Error("loading a whole model used random numbers up")
	}
	if len(report.Missing)+len(report.Unexpected)+len(report.Mismatched)+len(report.Initialized)+len(report.Renamed) > 0 {
		t.Errorf("the report is not empty:\n%s", report)
	}
	sameModel(t, again, m)
}

func sameModel(t *testing.T, got, want any) {
	t.Helper()
	a, b := nn.StateDict(got), nn.StateDict(want)
	if len(a) != len(b) {
		t.Fatalf("%d tensors, want %d", len(a), len(b))
	}
	for i := range a {
		golden.Bits(t, a[i].Name, a[i].Tensor, b[i].Tensor)
	}
}

// TestANewClassifierIsDrawnAsFromPretrainedDraws: transformers draws only what is missing, so the same seed gives the same new classifier.
func TestANewClassifierIsDrawnAsFromPretrainedDraws(t *testing.T) {
	g := modeltest.Load(t, "bert")
	base := newModel(t)
	dir := t.TempDir()
	if err := base.Save(dir); err != nil {
		t.Fatal(err)
	}
	torch.ManualSeed(5)
	m, report, err := bert.LoadClassifier(dir, bert.Head{NumLabels: 3})
	if err != nil {
		t.Fatal(err)
	}
	modeltest.SameWeights(t, m, g.Fine)
	if modeltest.Generator() != g.FineGenerator {
		t.Error("the generator stands elsewhere than transformers' after from_pretrained")
	}
	if got := report.Initialized; len(got) != 2 || got[0] != "classifier.weight" || got[1] != "classifier.bias" {
		t.Errorf("newly initialized are %q, want the classifier", got)
	}
	if got := len(report.Renamed); got != len(g.Base) {
		t.Errorf("%d tensors have got the prefix, want %d", got, len(g.Base))
	}
}
