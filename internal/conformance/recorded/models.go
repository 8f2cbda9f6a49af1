package recorded

import (
	"fmt"

	"github.com/gotrainer/gotrainer/compat/hezar/datasets"
	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/compat/hezar/preprocessors"
	"github.com/gotrainer/gotrainer/compat/hezar/repository"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
)

// Hezar's models in recordings: CRNNImage2Text and BertTextClassification.
const (
	CRNN = "crnn_image2text"
	BERT = "bert_text_classification"
)

// Hezar makes a model of one of Hezar's kinds from a config, a JSON object. set holds its
// preprocessors and may be nil.
func Hezar(kind string, config map[string]any, set *preprocessors.Set) *repository.Model {
	settings := repository.Settings{}
	for _, item := range Config(config).(omegaconf.Map) {
		settings[fmt.Sprint(item.Key)] = item.Value
	}
	delete(settings, "name")
	if settings["id2label"] == "the default charset" {
		settings["id2label"] = datasets.DefaultCharset()
	}
	return supported(repository.New(supported(repository.NewConfig(kind, settings)), set))
}

func supported[T any](v T, err error) T {
	if err != nil {
		spec.Refusef("the model: %v", err)
	}
	return v
}
