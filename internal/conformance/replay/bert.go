package replay

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"

	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/models/bert"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/torch"
)

// newBERT makes a BertForSequenceClassification of the fields of transformers' BertConfig, which
// are those of a config.json, except num_labels.
func newBERT(o *spec.Object) *model {
	attention := o.OneOf("attn_implementation", "eager", "eager", "sdpa")
	given := o.Object("config").Merge()
	spec.Check(o.Err())
	labels := given.Int("num_labels", 0)
	spec.Check(given.Err())
	fields := maps.Clone(given.Map())
	delete(fields, "num_labels")
	if _, named := fields["model_type"]; !named {
		fields["model_type"] = "bert"
	}
	dir := spec.Must(os.MkdirTemp("", "config-"))
	defer func() { _ = os.RemoveAll(dir) }()
	spec.Check(os.WriteFile(filepath.Join(dir, "config.json"), spec.Must(json.Marshal(fields)), 0o666))
	c, err := bert.ReadConfig(dir)
	if err != nil {
		spec.Refusef("model.config: %v", err)
	}
	if labels != 0 {
		c.NumLabels = int64(labels)
		if len(c.ID2Label) != labels {
			c.ID2Label = nil
		}
	}
	c.Attention = transformer.Attention(attention)
	return classifier(spec.Must(bert.NewClassifier(c)))
}

func classifier(m classify.Model) *model {
	return &model{
		module: m, inputs: []string{"input_ids", "attention_mask", "token_type_ids", "labels"}, takesItems: true,
		loss: func(logits, labels torch.Tensor, _ int64) torch.Tensor { return m.Head().Loss(logits, labels) },
		predict: func(b batch) torch.Tensor {
			return m.Forward(b.tensor("input_ids"), b.columns["attention_mask"], b.columns["token_type_ids"])
		},
	}
}
