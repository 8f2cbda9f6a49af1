package recorded

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/gotrainer/gotrainer/compat/hezar/datasets"
	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/compat/hezar/preprocessors"
	"github.com/gotrainer/gotrainer/compat/hezar/repository"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/models/bert"
	"github.com/gotrainer/gotrainer/models/crnn"
)

// CRNN makes Hezar's CRNN of a config, for the pictures of an image processor if there is one.
func CRNN(config omegaconf.Map, image *preprocessors.ImageProcessor) *crnn.Model {
	if labels, _ := config.Get("id2label"); labels == "the default charset" {
		m := omegaconf.Map{}
		for i, label := range datasets.DefaultCharset() {
			m = append(m, omegaconf.Item{Key: i, Value: label})
		}
		config.Set("id2label", m)
	}
	spec.Check(Known(config, "name", "id2label", "blank_id", "n_channels", "image_height", "image_width",
		"map2seq_in_dim", "map2seq_out_dim", "rnn_dim", "reverse_output_digits", "reverse_prediction_text"))
	return supported(crnn.New(supported(repository.CRNNConfig(config, image))))
}

// BERT makes Hezar's BertTextClassification of a config.
func BERT(config omegaconf.Map) *bert.Classifier {
	dir := spec.Must(os.MkdirTemp("", "model-"))
	defer func() { _ = os.RemoveAll(dir) }()
	full := omegaconf.Map{{Key: "name", Value: "bert_text_classification"}}
	for _, item := range config {
		if key, ok := item.Key.(string); ok {
			full.Set(key, item.Value)
		}
	}
	path := filepath.Join(dir, repository.ConfigFile)
	spec.Check(os.WriteFile(path, spec.Must(omegaconf.Marshal(full)), 0o666))
	c := supported(bert.ReadConfig(dir))
	if _, ok := config.Get("vocab_size"); !ok {
		c.VocabSize = 42000 // Hezar's default
	}
	if n, ok := config.Get("num_labels"); ok && n != int64(len(c.ID2Label)) {
		c.NumLabels, _ = n.(int64)
		c.ID2Label = nil
	}
	return supported(bert.NewClassifier(c))
}

func supported[T any](v T, err error) T {
	if err != nil {
		spec.Refusef("the model: %v", err)
	}
	return v
}

// Known refuses settings that nobody takes.
func Known(config omegaconf.Map, keys ...string) error {
	for _, item := range config {
		if key, ok := item.Key.(string); !ok || !slices.Contains(keys, key) {
			return spec.Unsupportedf("the field %v of the model", item.Key)
		}
	}
	return nil
}
