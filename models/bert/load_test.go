package bert_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/bert"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/torch"
)

func TestSavedModelLoads(t *testing.T) {
	testenv.RequireTorch(t)
	modeltest.SavedModelLoads(t, newClassifier(t, tiny()), func(dir string) (*bert.Classifier, *pretrained.Report,
		error) {
		return bert.LoadClassifier(dir, bert.Head{})
	})
}

// TestANewClassifierIsDrawnAsFromPretrainedDraws: transformers draws only missing weights, so the
// same seed must give the same new classifier.
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
		t.Error("the generator has another state than transformers' after from_pretrained")
	}
	if got := report.Initialized; len(got) != 2 || got[0] != "classifier.weight" || got[1] != "classifier.bias" {
		t.Errorf("newly initialized are %q, want the classifier", got)
	}
	if got := len(report.Renamed); got != len(g.Base) {
		t.Errorf("%d tensors have got the prefix, want %d", got, len(g.Base))
	}
}

func TestConfigSurvivesItsFile(t *testing.T) {
	testenv.RequireTorch(t)
	c := tiny()
	c.HiddenAct, c.LayerNormEps, c.InitializerRange = "relu", 1e-5, 0.5
	c.HiddenDropout, c.AttentionDropout, c.ClassifierDropout, c.PadTokenID = new(0.0), new(0.25), new(0.5),
		new(int64(-1))
	c.Head = bert.Head{ID2Label: []string{"no", "yes"}, ProblemType: classify.MultiLabel}
	c.Extra = pretrained.Document{"finetuning_task": []byte(`"mrpc"`)}
	m := newClassifier(t, c)
	dir := t.TempDir()
	if err := m.Save(dir); err != nil {
		t.Fatal(err)
	}
	got, report, err := bert.LoadClassifier(dir, bert.Head{})
	if err != nil {
		t.Fatal(err)
	}
	if got.InputEmbeddings().PaddingIdx != nil {
		t.Errorf("the padding row is %d, want none", *got.InputEmbeddings().PaddingIdx)
	}
	if s := report.String(); !strings.HasPrefix(s, "41 tensors fit") {
		t.Errorf("the report is\n%s", s)
	}
	again := got.Config()
	for _, key := range []string{"architectures", "dtype"} { // added by Save
		delete(again.Extra, key)
	}
	if diff := cmp.Diff(m.Config(), again); diff != "" {
		t.Error(diff)
	}
}

// TestSettingsThatAreNotSupportedAreRefused checks settings that would change what the model
// computes.
func TestSettingsThatAreNotSupportedAreRefused(t *testing.T) {
	modeltest.Refuses(t, "bert", map[string]string{
		`"is_decoder": true`:                        "is_decoder is true; only false",
		`"add_cross_attention": true`:               "add_cross_attention is true; only false",
		`"is_encoder_decoder": true`:                "is_encoder_decoder is true",
		`"position_embedding_type": "relative_key"`: `position_embedding_type is "relative_key"; only "absolute"`,
		`"chunk_size_feed_forward": 4`:              "chunk_size_feed_forward is 4",
		`"pruned_heads": {"0": [1]}`:                "pruned_heads is",
		`"quantization_config": {"bits": 4}`:        "quantization_config is",
		`"hidden_act": "gelu_10"`:                   `no activation "gelu_10"`,
		`"hidden_size": "large"`:                    `hidden_size is "large"`,
		`"hidden_size": 30`:                         "30, which is no multiple of the 12 heads",
		`"hidden_dropout_prob": 1.5`:                "HiddenDropout is 1.5",
		`"layer_norm_eps": -1`:                      "LayerNormEps is -1",
		`"pad_token_id": 40000`:                     "PadTokenID is 40000",
		`"num_hidden_layers": -2`:                   "NumLayers is -2",
		`"num_hidden_layers": 2000000000`:           "NumLayers is 2000000000; want at most 512",
		`"id2label": {"1": "a"}`:                    `the key "1"`,
		`"problem_type": "ranking"`:                 `no ProblemType "ranking"`,
		`"model_type": "roberta"`:                   `model_type is "roberta"; want "bert"`,
	}, func(dir string) error {
		_, _, err := bert.LoadClassifier(dir, bert.Head{})
		return err
	})
	if _, err := bert.NewClassifier(bert.Config{Attention: "flash"}); err == nil || !strings.Contains(err.Error(),
		`"flash"`) {
		t.Errorf("another attention: error %v", err)
	}
}

func TestAClassifierOfOtherLabelsIsDrawnOnlyIfAsked(t *testing.T) {
	testenv.RequireTorch(t)
	dir := t.TempDir()
	if err := newClassifier(t, tiny()).Save(dir); err != nil {
		t.Fatal(err)
	}
	if _, _, err := bert.LoadClassifier(dir, bert.Head{NumLabels: 5}); err == nil || !strings.Contains(err.Error(),
		"classifier.weight has shape [3 24], but the model wants [5 24]") {
		t.Errorf("error %v", err)
	}
	m, report, err := bert.LoadClassifierWith(dir, bert.LoadOptions{Head: bert.Head{NumLabels: 5},
		InitMismatched: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Mismatched) != 2 || len(report.Initialized) != 2 || m.Head().NumLabels != 5 ||
		m.Config().ID2Label[4] != "LABEL_4" {
		t.Errorf("%d labels, texts %q, report\n%s", m.Head().NumLabels, m.Config().ID2Label, report)
	}
}

func TestTheModelFreesWhatItMakes(t *testing.T) {
	testenv.RequireTorch(t)
	m := newClassifier(t, tiny())
	ids := torch.From([]int64{1, 2, 3, 4, 5, 0}, 2, 3)
	mask := torch.From([]int64{1, 1, 1, 1, 1, 0}, 2, 3)
	for _, checkpointing := range []bool{false, true} {
		m.SetGradientCheckpointing(checkpointing)
		torch.Scope(func() {
			before := testenv.Live()
			m.Forward(ids, mask, torch.Tensor{})
			if got := torch.Live() - before; got != 1 {
				t.Errorf("checkpointing %t: %d tensors are left, want the logits only", checkpointing, got)
			}
		})
	}
}
