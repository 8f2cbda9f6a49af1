package replay

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/models/bert"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/torch"
)

// bertModel is BertForSequenceClassification.
type bertModel struct{ classifier *bert.Classifier }

// newBERT makes a BERT of the fields of transformers' BertConfig, which are those of a config.json,
// except num_labels.
func newBERT(o *spec.Object) (model, error) {
	attention := o.OneOf("attn_implementation", "eager", "eager", "sdpa")
	given := o.Object("config").Merge()
	if err := o.Err(); err != nil {
		return nil, err
	}
	fields := map[string]any{"model_type": "bert"}
	for name, value := range given.Map() {
		fields[name] = value
	}
	labels := given.Int("num_labels", 0)
	if err := given.Err(); err != nil {
		return nil, err
	}
	delete(fields, "num_labels")
	dir, err := os.MkdirTemp("", "config-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	text, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), text, 0o666); err != nil {
		return nil, err
	}
	c, err := bert.ReadConfig(dir)
	if err != nil {
		return nil, spec.Unsupportedf("model.config: %v", err)
	}
	if labels != 0 {
		c.NumLabels = int64(labels)
		if len(c.ID2Label) != labels {
			c.ID2Label = nil
		}
	}
	c.Attention = transformer.Attention(attention)
	m, err := bert.NewClassifier(c)
	if err != nil {
		return nil, err
	}
	return &bertModel{m}, nil
}

func (m *bertModel) module() any        { return m.classifier }
func (m *bertModel) shiftsLabels() bool { return false }
func (m *bertModel) takesItems() bool   { return true }
func (m *bertModel) inputs() []string {
	return []string{"input_ids", "attention_mask", "token_type_ids", "labels"}
}

func (m *bertModel) predict(b batch) torch.Tensor {
	var mask, types torch.Tensor
	if b.has("attention_mask") {
		mask = b.tensor("attention_mask")
	}
	if b.has("token_type_ids") {
		types = b.tensor("token_type_ids")
	}
	return m.classifier.Forward(b.tensor("input_ids"), mask, types)
}

func (m *bertModel) loss(logits, labels torch.Tensor, _ int64) torch.Tensor {
	return m.classifier.Head().Loss(logits, labels)
}
