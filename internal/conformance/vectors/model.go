package vectors

import (
	"encoding/json"
	"os"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/compat/hezar/datasets"
	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/compat/hezar/preprocessors"
	"github.com/gotrainer/gotrainer/compat/hezar/repository"
	"github.com/gotrainer/gotrainer/internal/conformance/recorded"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/models/bert"
	"github.com/gotrainer/gotrainer/models/crnn"
)

// mapping turns a JSON object into a config; strings that are numbers become numbers where they are
// keys.
func mapping(raw json.RawMessage) (omegaconf.Map, error) {
	var object map[string]any
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	if err := d.Decode(&object); err != nil {
		return nil, err
	}
	return recorded.Config(object).(omegaconf.Map), nil
}

// newCRNN makes the model of a config, filled by the formula.
func newCRNN(config omegaconf.Map, init recorded.Formula, image *preprocessors.ImageProcessor) (*crnn.Model, error) {
	if labels, _ := config.Get("id2label"); labels == "the default charset" {
		m := omegaconf.Map{}
		for i, label := range datasets.DefaultCharset() {
			m = append(m, omegaconf.Item{Key: i, Value: label})
		}
		config.Set("id2label", m)
	}
	if err := known(config, "name", "id2label", "blank_id", "n_channels", "image_height", "image_width",
		"map2seq_in_dim", "map2seq_out_dim", "rnn_dim", "reverse_output_digits",
		"reverse_prediction_text"); err != nil {
		return nil, err
	}
	c, err := repository.CRNNConfig(config, image)
	if err != nil {
		return nil, spec.Unsupportedf("the model: %v", err)
	}
	m, err := crnn.New(c)
	if err != nil {
		return nil, spec.Unsupportedf("the model: %v", err)
	}
	return m, init.Fill(m)
}

// newBERT makes the model of a config, filled by the formula.
func newBERT(config omegaconf.Map, init recorded.Formula) (*bert.Classifier, error) {
	dir, err := os.MkdirTemp("", "model-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	full := omegaconf.Map{{Key: "name", Value: "bert_text_classification"}}
	for _, item := range config {
		if key, ok := item.Key.(string); ok {
			full.Set(key, item.Value)
		}
	}
	text, err := omegaconf.Marshal(full)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(dir+"/"+repository.ConfigFile, text, 0o666); err != nil {
		return nil, err
	}
	c, err := bert.ReadConfig(dir)
	if err != nil {
		return nil, spec.Unsupportedf("the model: %v", err)
	}
	if _, ok := config.Get("vocab_size"); !ok {
		c.VocabSize = 42000 // Hezar's default
	}
	m, err := bert.NewClassifier(c)
	if err != nil {
		return nil, spec.Unsupportedf("the model: %v", err)
	}
	return m, init.Fill(m)
}

// known refuses settings that nobody takes.
func known(config omegaconf.Map, keys ...string) error {
	for _, item := range config {
		if key, ok := item.Key.(string); !ok || !slices.Contains(keys, key) {
			return spec.Unsupportedf("the field %v of the model", item.Key)
		}
	}
	return nil
}
