package auto

import (
	"github.com/gotrainer/gotrainer/models/roberta"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// head computes logits from hidden states, [B, L, hidden]. It is a struct whose modules have the
// same names as those next to the encoder in transformers' models.
type head interface {
	forward(b transformer.Backbone, hidden torch.Tensor) torch.Tensor
}

// pooledHead classifies texts by the pooler's output for the first token: BERT, and most models that
// choose among texts.
type pooledHead struct {
	Dropout    *nn.Dropout `module:"dropout"`
	Classifier *nn.Linear  `module:"classifier"`
}

func (h *pooledHead) forward(b transformer.Backbone, hidden torch.Tensor) torch.Tensor {
	return h.Classifier.Forward(h.Dropout.Forward(b.Pool(hidden)))
}

// topHead classifies texts by their first token: RoBERTa, XLM-RoBERTa, ELECTRA and MPNet.
type topHead struct {
	Classifier *roberta.Top `module:"classifier"`
}

func (h *topHead) forward(_ transformer.Backbone, hidden torch.Tensor) torch.Tensor {
	return h.Classifier.Forward(hidden)
}

// preHead classifies texts by their first token: DistilBERT.
type preHead struct {
	PreClassifier *nn.Linear  `module:"pre_classifier"`
	Classifier    *nn.Linear  `module:"classifier"`
	Dropout       *nn.Dropout `module:"dropout"`
}

func (h *preHead) forward(_ transformer.Backbone, hidden torch.Tensor) torch.Tensor {
	return h.Classifier.Forward(h.Dropout.Forward(h.PreClassifier.Forward(hidden.Select(1, 0)).ReLU()))
}

// pairHead classifies texts by the one token that their decoder represents them by: BART.
type pairHead struct {
	Classifier *roberta.Top `module:"classification_head"`
}

func (h *pairHead) forward(_ transformer.Backbone, hidden torch.Tensor) torch.Tensor {
	return h.Classifier.Forward(hidden)
}

// sequenceHead classifies texts.
func sequenceHead(p transformer.Blueprint, b transformer.Builder) head {
	labels, size := p.Head.NumLabels, p.HiddenSize
	if p.LanguageModel != "" && !p.Pair {
		return newScoreHead(p, b)
	}
	dropout := nn.NewDropout(p.ClassifierDropout)
	switch p.ModelType {
	case "bert":
		return &pooledHead{dropout, b.Linear(size, labels)}
	case "distilbert":
		return &preHead{b.Linear(size, size), b.Linear(size, labels), dropout}
	}
	top := &roberta.Top{Dense: b.Linear(size, size), Dropout: dropout, OutProj: b.Linear(size, labels)}
	if p.Pair {
		return &pairHead{top}
	}
	if p.ModelType == "electra" {
		top.Activation = gelu
	}
	return &topHead{top}
}

// newChoiceHead gives each text one number, by the pooler's output or, in DistilBERT, by the first
// token.
func newChoiceHead(p transformer.Blueprint, b transformer.Builder) head {
	switch p.ModelType {
	case "bert":
		return &pooledHead{nn.NewDropout(p.ClassifierDropout), b.Linear(p.HiddenSize, 1)}
	case "distilbert":
		return &preHead{b.Linear(p.HiddenSize, p.HiddenSize), b.Linear(p.HiddenSize, 1), nn.NewDropout(p.ClassifierDropout)}
	}
	return &pooledHead{nn.NewDropout(p.Dropout), b.Linear(p.HiddenSize, 1)}
}

// tokenHead classifies tokens.
type tokenHead struct {
	Dropout    *nn.Dropout `module:"dropout"`
	Classifier *nn.Linear  `module:"classifier"`
}

func (h *tokenHead) forward(_ transformer.Backbone, hidden torch.Tensor) torch.Tensor {
	return h.Classifier.Forward(h.Dropout.Forward(hidden))
}

func newTokenHead(p transformer.Blueprint, b transformer.Builder) head {
	dropout := p.ClassifierDropout
	if p.ModelType == "distilbert" { // the dropout of DistilBERT's classifier is only for texts
		dropout = p.Dropout
	}
	return &tokenHead{nn.NewDropout(dropout), b.Linear(p.HiddenSize, p.Head.NumLabels)}
}

// answerHead gives each token two logits: one for being the start of an answer, one for being its
// end.
type answerHead struct {
	Outputs *nn.Linear  `module:"qa_outputs"`
	Dropout *nn.Dropout `module:"dropout"` // only DistilBERT has one
}

func (h *answerHead) forward(_ transformer.Backbone, hidden torch.Tensor) torch.Tensor {
	if h.Dropout != nil {
		hidden = h.Dropout.Forward(hidden)
	}
	return h.Outputs.Forward(hidden)
}

func newAnswerHead(p transformer.Blueprint, b transformer.Builder) head {
	h := &answerHead{Outputs: b.Linear(p.HiddenSize, 2)}
	if p.ModelType == "distilbert" {
		h.Dropout = nn.NewDropout(p.AnswerDropout)
	}
	return h
}

func gelu(x torch.Tensor) torch.Tensor { return x.GELU("none") }
