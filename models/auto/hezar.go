package auto

import (
	"fmt"

	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/models/roberta"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// The heads of Hezar's models are made of plain torch.nn modules and drawn like torch.nn.Linear.
// Only those of language models are transformers' own.

// hezarTokenClassification includes BERT's pooler, which is not used.
var hezarTokenClassification = task{class: "ForTokenClassification", head: hezarTokenHead, pooler: true}

// hezarTop classifies each token with the layers that other models use to classify texts: Hezar's
// RoBERTa.
type hezarTop struct {
	Classifier *roberta.Top `module:"classifier"`
}

func (h *hezarTop) forward(_ transformer.Backbone, hidden torch.Tensor) torch.Tensor {
	return h.Classifier.Each(hidden)
}

func hezarTokenHead(p transformer.Blueprint, b transformer.Builder) head {
	labels, size := p.Head.NumLabels, p.HiddenSize
	dropout := nn.NewDropout(p.ClassifierDropout)
	if p.ModelType == "roberta" {
		return &hezarTop{&roberta.Top{Dense: b.Linear(size, size), Dropout: dropout, OutProj: b.Linear(size, labels)}}
	}
	return &tokenHead{dropout, b.Linear(size, labels)}
}

// HezarSequenceClassifier makes BertTextClassification, RobertaTextClassification or
// DistilBertTextClassification of Hezar 1.0.0, with random weights. The document d has the keys of
// transformers' config.json.
func HezarSequenceClassifier(d pretrained.Document) (*Model, error) {
	return hezarModel(d, sequenceClassification)
}

// HezarTokenClassifier makes BertSequenceLabeling, RobertaSequenceLabeling or
// DistilBertSequenceLabeling of Hezar 1.0.0, with random weights. For DistilBERT,
// seq_classif_dropout is the dropout before the classifier.
func HezarTokenClassifier(d pretrained.Document) (*Model, error) {
	return hezarModel(d, hezarTokenClassification)
}

// HezarSeq2SeqLM makes the T5 inside Hezar 1.0.0's T5TextGeneration, with random weights.
func HezarSeq2SeqLM(d pretrained.Document) (*Seq2SeqLanguageModel, error) {
	m, err := hezarLanguageModel(d, pairs, seq2seqLM)
	if err != nil {
		return nil, err
	}
	return &Seq2SeqLanguageModel{m}, nil
}

// HezarCausalLM makes the GPT-2 inside Hezar 1.0.0's GPT2TextGeneration, with random weights.
func HezarCausalLM(d pretrained.Document) (*CausalLanguageModel, error) {
	m, err := hezarLanguageModel(d, decoders, causalLM)
	if err != nil {
		return nil, err
	}
	return &CausalLanguageModel{m}, nil
}

// hezarLanguageModel makes a model that Hezar takes from transformers, including its head.
func hezarLanguageModel(d pretrained.Document, known blueprints, t task) (m *Model, err error) {
	p, err := plan(d, known, classify.Head{}, "")
	if err == nil {
		err = torch.Try(func() { m = newModel(p, t, transformer.Builder{}) })
	}
	if err != nil {
		return nil, fmt.Errorf("auto: %w", err)
	}
	return m, nil
}

func hezarModel(d pretrained.Document, t task) (m *Model, err error) {
	p, err := plan(d, encoders, classify.Head{}, "")
	if err == nil {
		err = torch.Try(func() {
			m = &Model{blueprint: p, task: t, backbone: p.Build(transformer.Builder{}, t.pooler)}
			m.head = t.head(p, transformer.Builder{})
		})
	}
	if err != nil {
		return nil, fmt.Errorf("auto: %w", err)
	}
	return m, nil
}
