package auto

import (
	"context"
	"errors"
	"slices"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/seq2seq"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// Seq2SeqLanguageModel generates a text from another text: AutoModelForSeq2SeqLM.
type Seq2SeqLanguageModel struct{ *Model }

var _ seq2seq.Model = (*Seq2SeqLanguageModel)(nil)

// Seq2SeqLM loads a model from a folder or the Hub.
func Seq2SeqLM(ctx context.Context, model string, o Options) (*Seq2SeqLanguageModel, error) {
	loaded, err := load(ctx, model, seq2seqLM, o)
	if err != nil {
		return nil, err
	}
	m := &Seq2SeqLanguageModel{loaded}
	if err := m.takeLanguages(); err != nil {
		return nil, err
	}
	return m, nil
}

// NewSeq2SeqLM makes a model with random weights, such as a [t5.Config] describes, in training
// mode: from_config. The tokenizer is saved with the model. It may be nil if the program has token
// ids.
func NewSeq2SeqLM(c Config, t *text.Tokenizer) (*Seq2SeqLanguageModel, error) {
	m, err := newLanguageModel(c, t, seq2seqLM)
	if err != nil {
		return nil, err
	}
	return &Seq2SeqLanguageModel{m}, nil
}

// Task is what engine.New trains, with the defaults of [seq2seq.NewTask].
func (m *Seq2SeqLanguageModel) Task() *seq2seq.Task {
	return must(seq2seq.NewTask(m, seq2seq.TaskOptions{}))
}

// Encode makes a sample of a source text and its target text, which Model.Tokenizer and its Target
// encode. Both are cut if Model.Tokenizer truncates. If the tokenizer puts no end token after the
// target, Encode does.
func (m *Seq2SeqLanguageModel) Encode(source, target string) (seq2seq.Sample, error) {
	first, err := m.encode(text.Single(source))
	if err != nil {
		return seq2seq.Sample{}, err
	}
	second, err := m.encodeTarget(text.Single(target))
	if err != nil {
		return seq2seq.Sample{}, err
	}
	return seq2seq.Sample{Text: m.Limits().Of(first), Labels: m.ended(second.IDs), Target: target}, nil
}

// ForwardPair maps the token ids of source texts, [B, L], and of target texts, [B, T], to logits,
// [B, T, vocabulary]: see [seq2seq.Model].
func (m *Seq2SeqLanguageModel) ForwardPair(ids, mask, decoderIDs torch.Tensor) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		return m.head.forward(m.backbone, m.backbone.ForwardPair(ids, mask, decoderIDs))
	})
}

// FinalLogitsBias is what BART, mBART and Marian add to the logits of all words, [1, vocabulary]:
// final_logits_bias of their files, which is not trained. It is undefined in other models.
func (m *Seq2SeqLanguageModel) FinalLogitsBias() torch.Tensor {
	if h, ok := m.head.(*seq2seqHead); ok && h.bias != nil {
		return h.bias.Bias
	}
	return torch.Tensor{}
}

// DecoderStartTokenID is the token that begins every generated text: decoder_start_token_id.
func (m *Seq2SeqLanguageModel) DecoderStartTokenID() int64 { return m.blueprint.DecoderStartTokenID }

// DecoderStartOf is the token that begins the target text with the given labels in training, as
// transformers' shift_tokens_right puts it there: DecoderStartTokenID, or in mBART the last of the
// labels, which is a language or the end token. Labels that are [inputs.IgnoreIndex] or padding do
// not count; transformers goes wrong if there are any before the last one.
func (m *Seq2SeqLanguageModel) DecoderStartOf(labels []int64) int64 {
	if !m.blueprint.WrapsLabels {
		return m.DecoderStartTokenID()
	}
	padding := m.Limits().PadTokenID
	for _, id := range slices.Backward(labels) {
		if id != inputs.IgnoreIndex && id != padding {
			return id
		}
	}
	return padding
}

// EOSTokenIDs are the tokens that end a text: eos_token_id.
func (m *Seq2SeqLanguageModel) EOSTokenIDs() []int64 { return slices.Clone(m.blueprint.EOSTokenIDs) }

// Generate generates a text from a source text, without special tokens. The model is in evaluation
// mode meanwhile. Several goroutines may call it at a time, but not while the model is trained. If
// ctx ends, Generate returns the text so far and the context's cause.
func (m *Seq2SeqLanguageModel) Generate(ctx context.Context, source string, g Generation) (string, error) {
	g.single = true
	all, err := m.GenerateBatch(ctx, []string{source}, g)
	if len(all) == 0 {
		return "", err
	}
	return all[0], err
}

// GenerateBatch is [Seq2SeqLanguageModel.Generate] for several texts at a time, which is faster
// than one after the other. It returns Generation.NumReturnSequences texts for the first source,
// then those for the second, and so on.
func (m *Seq2SeqLanguageModel) GenerateBatch(ctx context.Context, sources []string, g Generation) ([]string, error) {
	texts := make([]inputs.Text, len(sources))
	for i, source := range sources {
		e, err := m.encode(text.Single(source))
		if err != nil {
			return nil, err
		}
		texts[i] = m.Limits().Of(e)
	}
	rows, err := m.GenerateIDs(ctx, texts, g)
	return m.decodeAll(rows), err
}

// GenerateIDs is [Seq2SeqLanguageModel.GenerateBatch] with token ids: it returns the ids that it
// generates from each text, without the token that begins them all.
func (m *Seq2SeqLanguageModel) GenerateIDs(ctx context.Context, texts []inputs.Text, g Generation) (rows [][]int64,
	err error) {
	if len(texts) == 0 {
		return nil, errors.New("auto: there are no texts to generate from")
	}
	if g, err = m.pairGeneration(g, len(texts)); err != nil {
		return nil, err
	}
	b, err := m.Limits().Collate("auto", texts, data.Padding{})
	if err != nil {
		return nil, err
	}
	return m.generated(func(p engine.ForwardPass) ([][]int64, error) { return m.write(ctx, p, b, g) })
}

// Writer makes the function that TaskOptions.Write of package seq2seq takes. With it, an evaluation
// has the model generate from its texts, for metrics. It needs Model.Tokenizer.
func (m *Seq2SeqLanguageModel) Writer(g Generation) (func(p engine.ForwardPass, b inputs.Batch) []string, error) {
	g, err := m.pairWriter(g)
	if err != nil {
		return nil, err
	}
	return func(p engine.ForwardPass, b inputs.Batch) []string {
		rows, _ := m.write(context.Background(), p, b, g) // it runs until the batch is done
		return m.decodeAll(rows)
	}, nil
}

// write generates texts from the texts of a batch.
func (m *Seq2SeqLanguageModel) write(ctx context.Context, p engine.ForwardPass, b inputs.Batch,
	g Generation) ([][]int64, error) {
	return m.writePairs(ctx, p, b.InputIDs.Rows, g, func() (hidden, mask torch.Tensor) {
		ids, mask, _ := b.To(p)
		return m.backbone.Encode(ids, mask), mask
	})
}

// seq2seqHead gives each word of the vocabulary a logit for coming next.
type seq2seqHead struct {
	LMHead *nn.Linear `module:"lm_head"`

	scale float64     // factor of its input
	bias  *logitsBias `module:"-"` // nil: none
}

// logitsBias is added to logits. Its name in files is that of a tensor of the whole model, so
// OwnModules lists it without a name of its own.
type logitsBias struct {
	Bias torch.Tensor `buffer:"final_logits_bias,optional"` // [1, vocabulary]
}

func (h *seq2seqHead) tie(e *nn.Embedding) { h.LMHead.Weight = e.Weight }

func (h *seq2seqHead) output() *nn.Linear { return h.LMHead }

func (h *seq2seqHead) forward(_ transformer.Backbone, hidden torch.Tensor) torch.Tensor {
	if h.scale != 1 {
		hidden = hidden.MulScalar(h.scale)
	}
	logits := h.LMHead.Forward(hidden)
	if h.bias != nil {
		logits = logits.Add(h.bias.Bias)
	}
	return logits
}

func newSeq2SeqHead(p transformer.Blueprint, b transformer.Builder) head {
	vocab := p.Limits.TargetVocab()
	h := &seq2seqHead{LMHead: b.LinearNoBias(p.HiddenSize, vocab), scale: p.OutputScale}
	if p.LogitsBias {
		h.bias = &logitsBias{nn.Buffer(torch.TensorOptions{DType: b.DType}.Zeros(1, vocab))}
	}
	return h
}
