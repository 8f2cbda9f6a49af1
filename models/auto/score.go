package auto

import (
	"fmt"
	"maps"

	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/torch"
)

// padTokenKey is where config.json says which token pads texts.
const padTokenKey = "pad_token_id"

// NewSequenceClassification makes a classifier with random weights out of a decoder, in training
// mode: from_config. The tokenizer is saved with the model. It may be nil if the program has token
// ids. For encoders there is Options.FromConfig.
func NewSequenceClassification(c Config, h classify.Head, t *text.Tokenizer) (*SequenceClassifier, error) {
	p, err := c.Blueprint()
	if err == nil && (p.LanguageModel == "" || classifiers[p.ModelType] == nil) {
		err = fmt.Errorf("transformers has no %s%s", p.Class, sequenceClassification.class)
	}
	if err == nil {
		p, err = labelled(p, pretrained.Document{}, h)
	}
	var m *Model
	if err == nil {
		err = torch.Try(func() { m = newModel(p, sequenceClassification, transformer.Builder{}) })
	}
	if err != nil {
		return nil, fmt.Errorf("auto: %w", err)
	}
	m.Tokenizer = t
	return &SequenceClassifier{m}, nil
}

// labelled gives a decoder the labels of h, or else those of its config.json, as encoders have
// them.
func labelled(p transformer.Blueprint, d pretrained.Document, h classify.Head) (transformer.Blueprint, error) {
	own, err := classify.DecodeHead(maps.Clone(d))
	if err == nil {
		p.Head, err = h.Over(own.Over(p.Head)).Resolved()
	}
	document, head := p.Document, p.Head
	p.Document = func(architecture string) (pretrained.Document, error) {
		d, err := document(architecture)
		if err != nil {
			return nil, err
		}
		delete(d, "num_labels")
		delete(d, "label2id")
		return d, head.Encode(d)
	}
	return p, err
}

// scoreHead classifies texts by their last token: GenericForSequenceClassification.
type scoreHead struct {
	Score *nn.Linear `module:"score"`

	pad *int64 // pads texts; nil: nothing does
}

func newScoreHead(p transformer.Blueprint, b transformer.Builder) head {
	h := &scoreHead{Score: b.LinearNoBias(p.HiddenSize, p.Head.NumLabels)}
	if pad := p.PadTokenID; pad != nil && *pad >= 0 && *pad < p.Limits.VocabSize {
		h.pad = pad
	}
	return h
}

func (h *scoreHead) forward(_ transformer.Backbone, hidden torch.Tensor) torch.Tensor {
	return h.Score.Forward(hidden)
}

// last picks the logits of texts, [B, labels], from those of all their tokens, [B, L, labels]: of
// the last token that does not pad. As in transformers all have been computed, on which the bits of
// the gradient depend.
func (h *scoreHead) last(logits, ids torch.Tensor) torch.Tensor {
	rows, width := ids.Size(0), ids.Size(1)
	if h.pad == nil {
		if rows > 1 {
			panic(torch.Errorf("auto.Model.Forward", torch.ErrValue, "the model has no padding token (%s of %s), so that the "+
				"ends of %d texts are not known; set one with SequenceClassifier.SetPadTokenID, or have batches of one text",
				padTokenKey, pretrained.ConfigName, rows))
		}
		return logits.Select(1, width-1)
	}
	places := torch.TensorOptions{Device: ids.Device(), DType: torch.Int32}.Arange(0, width, 1)
	at := ids.NeScalar(*h.pad).ToDType(torch.Int32).Mul(places).ArgMax(-1, false)
	return transformer.TokensAt(logits, at)
}

// SetPadTokenID chooses the token that pads texts, by its id. It is saved as pad_token_id. Only a
// decoder needs one: it classifies a text by the last token that is not this one. So if the token
// also ends texts, the token in front of it counts, as in transformers. Without a padding token,
// batches of more than one text are an error. The token's row of the embedding is trained unless
// config.json named the token before. Call SetPadTokenID before Task.
func (m *SequenceClassifier) SetPadTokenID(id int64) error {
	h, ok := m.head.(*scoreHead)
	if !ok {
		return fmt.Errorf("auto: SetPadTokenID: %s reads the class from the first token, and pads as its %s says",
			m.Architecture(), pretrained.ConfigName)
	}
	if n := m.Limits().VocabSize; id < 0 || id >= n {
		return fmt.Errorf("auto: SetPadTokenID(%d); want an id below the size of the vocabulary, %d", id, n)
	}
	m.setPadTokenID(h, id)
	return nil
}

func (m *Model) setPadTokenID(h *scoreHead, id int64) {
	m.padTokenID, h.pad = &id, &id
	m.blueprint.Limits.PadTokenID = id
}
