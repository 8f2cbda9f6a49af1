package crossencoder

import (
	"errors"
	"fmt"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/internal/sbert"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// Activation is an activation function, by the name of its class in torch.nn.
type Activation string

// The activation functions.
const (
	Identity Activation = "Identity"
	Sigmoid  Activation = "Sigmoid"
	Tanh     Activation = "Tanh"
	ReLU     Activation = "ReLU"
	GELU     Activation = "GELU"
	SiLU     Activation = "SiLU"
)

func (a Activation) check() error { return sbert.CheckActivation(string(a)) }

// of applies the function; otherwise is the one of the zero value.
func (a Activation) of(x torch.Tensor, otherwise Activation) torch.Tensor {
	if a == "" {
		a = otherwise
	}
	return sbert.Activate(string(a), x)
}

// CrossEncoder scores pairs of texts: CrossEncoder. It also has what the classifier or language
// model has, such as AddLoRA, SetPaddingFree, SetGradientCheckpointing and Tokenizer.
type CrossEncoder struct {
	*auto.Model

	// LogitScore is how a language model scores; nil: the model is a classifier.
	// [NewWithLogitScore] and [Load] set it.
	LogitScore *LogitScore
	// Messages is how ChatTemplate writes pairs; nil: the tokenizer joins the two texts. [New],
	// [NewWithLogitScore] and [Load] set it to [MessagesFor] of the model's template, which is nil if
	// there is none, and Load to what the files say.
	Messages *Messages

	// ActivationFn is applied to the logits by Predict and Rank: activation_fn. [New] sets it to
	// Sigmoid for one label, and else to Identity.
	ActivationFn Activation
	// MaxLength is the most tokens of a pair, special tokens included: max_length. Of a longer pair,
	// the longer text is cut; if a chat template writes pairs, the end of what it has written, but
	// for the tokens that it ends every pair with. Zero: as many as the model takes.
	MaxLength int
	// Prompts are texts that are put before the first text of each pair, by name. A chat template
	// gets them as the message of the role system.
	Prompts map[string]string
	// DefaultPromptName is the prompt of Predict and Rank if the caller names none. Training uses
	// that of TaskOptions.
	DefaultPromptName string

	lowerCase bool // do_lower_case
}

var (
	_ nn.ModuleLister    = (*CrossEncoder)(nil)
	_ engine.Adapted     = (*CrossEncoder)(nil)
	_ inputs.PackedModel = (*CrossEncoder)(nil)
)

// New makes a cross encoder of a classifier.
func New(classifier *auto.SequenceClassifier) (*CrossEncoder, error) {
	if classifier == nil {
		return nil, errors.New("crossencoder: the classifier is nil; want one of auto.CrossEncoder or " +
			"auto.SequenceClassification")
	}
	return of(classifier.Model, nil), nil
}

// of makes a cross encoder with the default settings.
func of(model *auto.Model, s *LogitScore) *CrossEncoder {
	m := &CrossEncoder{Model: model, LogitScore: s, Messages: MessagesFor(model.ChatTemplate), ActivationFn: Identity,
		Prompts: map[string]string{}}
	if m.NumLabels() == 1 {
		m.ActivationFn = Sigmoid
	}
	return m
}

// NumLabels is how many numbers a pair gets: one of a language model.
func (m *CrossEncoder) NumLabels() int {
	if m.LogitScore != nil {
		return 1
	}
	return int(m.Head().NumLabels)
}

// tokens tokenizes a pair of texts. Prompts are put before the first.
func (m *CrossEncoder) tokens(prompt, query, document string) (inputs.Text, error) {
	if m.MaxLength < 0 {
		return inputs.Text{}, fmt.Errorf("crossencoder: MaxLength is %d; want the most tokens of a pair, or 0", m.MaxLength)
	}
	if m.Messages != nil {
		return m.writtenTokens(prompt, query, document)
	}
	return m.EncodeText(text.Pair(prompt+query, document), m.MaxLength)
}

// collate tokenizes pairs and pads them to a batch.
func (m *CrossEncoder) collate(prompt string, pairs [][2]string, p data.Padding) (b inputs.Batch, err error) {
	rows := make([]inputs.Text, len(pairs))
	for i, pair := range pairs {
		if rows[i], err = m.tokens(prompt, pair[0], pair[1]); err != nil {
			return b, err
		}
	}
	return m.Limits().Collate("crossencoder", rows, p)
}

func (m *CrossEncoder) prompts() sbert.Prompts {
	return sbert.Prompts{ByName: m.Prompts, Default: m.DefaultPromptName}
}
