package repository

import (
	"errors"
	"fmt"

	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/compat/hezar/preprocessors"
	"github.com/gotrainer/gotrainer/models/bert"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/text/hezar"
	"github.com/gotrainer/gotrainer/torch"
)

// TextClassification is a BERT that classifies texts, with its preprocessors.
type TextClassification struct {
	Model         *bert.Classifier
	Preprocessors *preprocessors.Set
}

// Class is a class that a text may have.
type Class struct {
	Label string
	Score float64 // its probability
}

// LoadTextClassification reads the folder of a bert_text_classification model. A head of another
// size takes package bert: bert.LoadClassifierWith.
func LoadTextClassification(dir string) (*TextClassification, error) {
	if _, err := ReadConfig(dir); err != nil {
		return nil, err
	}
	model, _, err := bert.LoadClassifier(dir, bert.Head{})
	if err != nil {
		return nil, err
	}
	set, err := preprocessors.Load(dir)
	if err != nil {
		return nil, err
	}
	return &TextClassification{model, set}, nil
}

// Save writes the folder, for Hezar's Model.load and [LoadTextClassification] to read.
func (c *TextClassification) Save(dir string) error {
	if err := WriteModel(dir, c.Model, bertMap(c.Model.Config())); err != nil {
		return err
	}
	if c.Preprocessors == nil {
		return nil
	}
	return c.Preprocessors.Save(dir)
}

// Predict classifies texts, in one batch, and returns for each the best classes: Model.predict.
// Hezar's fails for texts of different lengths; here they are padded. Top 0 means 1. A model that
// is being trained must not be asked at the same time.
func (c *TextClassification) Predict(top int, texts ...string) (classes [][]Class, err error) {
	if c.Preprocessors == nil || c.Preprocessors.Tokenizer == nil {
		return nil, errors.New("repository: the model has no tokenizer to read texts with")
	}
	if len(texts) == 0 {
		return nil, nil
	}
	ids, mask, err := c.encode(texts)
	if err != nil {
		return nil, err
	}
	nn.SetTraining(c.Model, false)
	err = torch.Try(func() {
		torch.InferenceMode(func() {
			torch.Scope(func() {
				shape := []int64{int64(len(texts)), int64(len(ids) / len(texts))}
				device := c.Model.Classifier.Weight.Device()
				logits := c.Model.Forward(torch.From(ids, shape...).ToDevice(device),
					torch.From(mask, shape...).ToDevice(device), torch.Tensor{})
				classes = Classes(logits, c.Model.Head().ID2Label, max(1, top))
			})
		})
	})
	return classes, err
}

// encode normalizes and tokenizes texts, padded to one length, row by row.
func (c *TextClassification) encode(texts []string) (ids, mask []int64, err error) {
	t, err := c.Preprocessors.Tokenizer.Configured(hezar.CallOptions{})
	if err != nil {
		return nil, nil, err
	}
	longest := 0
	rows := make([][]int64, len(texts))
	for i, text := range texts {
		if n := c.Preprocessors.Normalizer; n != nil {
			text = n.Normalize(text)
		}
		e, err := t.Encode(text, nil)
		if err != nil {
			return nil, nil, err
		}
		rows[i], longest = e.IDs, max(longest, len(e.IDs))
	}
	if most := c.Model.Config().MaxPositions; int64(longest) > most {
		return nil, nil, fmt.Errorf("repository: a text has %d tokens; the model takes %d", longest, most)
	}
	pad := *c.Model.Config().PadTokenID
	for _, row := range rows {
		for k := range longest {
			if k < len(row) {
				ids, mask = append(ids, row[k]), append(mask, 1)
			} else {
				ids, mask = append(ids, max(0, pad)), append(mask, 0)
			}
		}
	}
	return ids, mask, nil
}

// Classes are the best classes of each row of logits, [rows, classes], with their probabilities.
func Classes(logits torch.Tensor, labels []string, top int) [][]Class {
	classes := make([][]Class, logits.Size(0))
	for i := range classes {
		scores, ids := logits.Select(0, int64(i)).Softmax(-1, torch.DefaultDType).Sort(-1, true)
		values, order := torch.Values[float32](scores.ToDType(torch.Float32)), torch.Values[int64](ids)
		for k := range min(top, len(order)) {
			label := fmt.Sprintf("LABEL_%d", order[k])
			if int(order[k]) < len(labels) {
				label = labels[order[k]]
			}
			classes[i] = append(classes[i], Class{label, float64(values[k])})
		}
	}
	return classes
}

// bertMap is the config as Hezar writes it.
func bertMap(c bert.Config) omegaconf.Map {
	labels := c.ID2Label
	if labels == nil {
		for i := range c.NumLabels {
			labels = append(labels, fmt.Sprintf("LABEL_%d", i))
		}
	}
	m := omegaconf.Map{
		{Key: "name", Value: "bert_text_classification"}, {Key: "config_type", Value: "model"},
		{Key: "task", Value: "text_classification"},
		{Key: "num_labels", Value: c.NumLabels}, {Key: "id2label", Value: labelMap(labels)},
		{Key: "vocab_size", Value: c.VocabSize},
		{Key: "hidden_size", Value: c.HiddenSize}, {Key: "num_hidden_layers", Value: c.NumLayers},
		{Key: "num_attention_heads", Value: c.NumHeads},
		{Key: "intermediate_size", Value: c.IntermediateSize}, {Key: "hidden_act", Value: c.HiddenAct},
		{Key: "hidden_dropout_prob", Value: *c.HiddenDropout},
		{Key: "attention_probs_dropout_prob", Value: *c.AttentionDropout}, {Key: "max_position_embeddings",
			Value: c.MaxPositions},
		{Key: "type_vocab_size", Value: c.TypeVocabSize}, {Key: "initializer_range", Value: c.InitializerRange},
		{Key: "layer_norm_eps", Value: c.LayerNormEps},
		{Key: "pad_token_id", Value: *c.PadTokenID}, {Key: "position_embedding_type", Value: "absolute"},
		{Key: "use_cache", Value: true},
	}
	if c.ClassifierDropout != nil {
		m.Set("classifier_dropout", *c.ClassifierDropout)
	}
	return m
}
