package hezar

import (
	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// Model is what a Trainer trains: a model and how its batches are made. S is a sample of a data
// set, B a batch of them. Every task of package engine that predicts is a Model, such as that of
// models/classify; [Image2Text] makes one from a CRNN.
//
// Predict is Hezar's forward: the first of Outputs.Logits are the logits, the first of
// Outputs.Labels the labels, both with a row for each sample. LossOf is its compute_loss; it runs
// in float32 under mixed precision too.
type Model[S, B any] interface {
	engine.Task[S, B]
	engine.Predictor[B]
}

// Generator is a generative model: is_generative and generate of Hezar's models. An evaluation
// scores what it generates for a batch.
type Generator[B any] interface {
	// Generate returns ids, [rows, length]. o is the result of Predict for the same batch.
	Generate(p engine.ForwardPass, b B, o engine.Outputs) torch.Tensor
}

// PostProcessor is a model that turns ids into texts, both generated ones and labels:
// post_process.
type PostProcessor interface {
	PostProcess(ids [][]int64) []string
}

// Tagger is a model that has names for its labels, for sequence labeling.
type Tagger interface {
	TagName(id int64) string // id2label
	// IOB reports whether the names start with B- and I-. It is used if the training set has no
	// datasets.Config.IsIOBSchema.
	IOB() bool
}

// Configured is a model with a model_config.yaml.
type Configured interface {
	HezarConfig() omegaconf.Map
}

// Preprocessor writes its files into a model's folder, under preprocessor/: the set of
// compat/hezar/preprocessors is one.
type Preprocessor interface {
	Save(dir string) error
}
