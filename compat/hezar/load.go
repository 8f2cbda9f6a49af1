package hezar

import (
	"context"

	"github.com/gotrainer/gotrainer/compat/hezar/datasets"
	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/compat/hezar/preprocessors"
	"github.com/gotrainer/gotrainer/compat/hezar/repository"
)

// Settings are fields of Hezar's configs under their names there, such as id2label.
type Settings = repository.Settings

// LoadModel loads a model from a folder or from the Hub: Model.load. The model can predict, be
// saved and pushed, and be trained as [OCR], [TextClassification], [SequenceLabeling] or
// [TextGeneration].
func LoadModel(ctx context.Context, model string) (*repository.Model, error) {
	dir, err := repository.Find(ctx, model)
	if err != nil {
		return nil, err
	}
	return repository.Load(dir)
}

// NewModel makes a model with random weights, drawn as in Hezar:
// BertTextClassification(BertTextClassificationConfig(id2label=...)). kind is the name of its
// class in Hezar's registry, such as crnn_image2text or bert_text_classification. Missing settings
// have Hezar's defaults.
func NewModel(kind string, s Settings, p *preprocessors.Set) (*repository.Model, error) {
	config, err := repository.NewConfig(kind, s)
	if err != nil {
		return nil, err
	}
	return repository.New(config, p)
}

// NewModelLike is like NewModel with the config of another model, in a folder or on the Hub, and
// some settings changed: CRNNImage2Text(CRNNImage2TextConfig.load(base, id2label=...)).
func NewModelLike(ctx context.Context, base string, s Settings, p *preprocessors.Set) (*repository.Model, error) {
	dir, err := repository.Find(ctx, base)
	if err != nil {
		return nil, err
	}
	var config omegaconf.Map
	if config, err = repository.LoadConfig(dir, s); err != nil {
		return nil, err
	}
	return repository.New(config, p)
}

// LoadPreprocessor loads the preprocessors of a model in a folder or on the Hub:
// Preprocessor.load.
func LoadPreprocessor(ctx context.Context, model string) (*preprocessors.Set, error) {
	dir, err := repository.Find(ctx, model)
	if err != nil {
		return nil, err
	}
	return preprocessors.Load(dir)
}

// DatasetOptions are the arguments of Dataset.load.
type DatasetOptions = datasets.LoadOptions

// LoadDataset loads a split of a data set of type D, in a folder or on the Hub: Dataset.load.
//
//	train, err := hezar.LoadDataset[*datasets.OCR](ctx, "hezarai/persian-license-plate-v1", "train",
//		hezar.DatasetOptions{Preprocessor: preprocessor})
//
// Its Config has id2label and the other settings; its Collate is the data_collator.
func LoadDataset[D datasets.Set](ctx context.Context, name, split string, o DatasetOptions) (d D, err error) {
	dir, err := repository.FindDataset(ctx, name, split)
	if err != nil {
		return d, err
	}
	return datasets.Load[D](dir, split, o)
}
