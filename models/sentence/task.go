package sentence

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/internal/gradcache"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// Sample is some texts, and the label that a [Loss] wants.
type Sample struct {
	Texts  []Text    // an anchor, its positive, and negatives; or the texts of a pair
	Score  float32   // how similar the texts of a pair are; for ContrastiveLoss 1 or 0
	Target []float32 // the embedding that the texts should have
}

// Sample makes a sample of texts, without prompts and without a label. [Transformer.Text] makes a
// text with a prompt.
func (m *Transformer) Sample(texts ...string) (s Sample, err error) {
	s.Texts = make([]Text, len(texts))
	for i, one := range texts {
		if s.Texts[i], err = m.Text("", one); err != nil {
			return s, err
		}
	}
	return s, nil
}

// Batch is some samples.
type Batch struct {
	// Passes are the texts as they go through the model: first the first text of each sample, then
	// the others together, grouped by their place in the samples. For a
	// CachedMultipleNegativesRankingLoss they are mini-batches of texts at the same place.
	Passes []Texts
	Rows   int       // samples
	Labels []float32 // scores, or concatenated targets; nil: none
}

// TaskOptions configures [NewTask].
type TaskOptions struct {
	Loss       Loss         // nil: CoSENTLoss
	Padding    data.Padding // how wide a batch becomes; on the right only
	Evaluators []Evaluator  // what evaluations report besides the loss
}

// Task ties a model to samples: what SentenceTransformerTrainer trains.
type Task struct {
	model      *Transformer
	loss       Loss
	wants      Wants
	padding    data.Padding
	evaluators []Evaluator
	observed   bool // an evaluation is running
}

var (
	_ engine.Task[Sample, Batch] = (*Task)(nil)
	_ engine.Observer[Batch]     = (*Task)(nil)
	_ engine.TokenCounter[Batch] = (*Task)(nil)
	_ engine.Configurer          = (*Task)(nil)
	_ engine.InputLister[Batch]  = (*Task)(nil)
	_ engine.OptionsValidator    = (*Task)(nil)
	_ engine.GroupValidator      = (*Task)(nil)
)

// NewTask makes the task of a model.
func NewTask(m *Transformer, o TaskOptions) (*Task, error) {
	if o.Loss == nil {
		o.Loss = CoSENTLoss{}
	}
	if c, ok := o.Loss.(checker); ok {
		if err := c.check(m.EmbeddingDimension()); err != nil {
			return nil, fmt.Errorf("sentence: TaskOptions.Loss: %T: %w", o.Loss, err)
		}
	}
	if err := m.Limits().CheckPadding("sentence", o.Padding); err != nil {
		return nil, err
	}
	if m.LoRA() != nil {
		if err := m.adaptable(); err != nil {
			return nil, err
		}
	}
	for _, e := range o.Evaluators {
		if err := e.Check(m); err != nil {
			return nil, err
		}
	}
	return &Task{model: m, loss: o.Loss, wants: o.Loss.Wants(), padding: o.Padding, evaluators: o.Evaluators}, nil
}

// ValidateOptions refuses options that do not work with the model, and LabelSmoothing, which is for
// classes.
func (t *Task) ValidateOptions(o engine.Options) error {
	if o.LabelSmoothing != 0 {
		return fmt.Errorf("sentence: Options.LabelSmoothing is %g, but embeddings have no classes; leave it out",
			o.LabelSmoothing)
	}
	if isCached(t.loss) {
		if err := gradcache.ValidateOptions("sentence", t.loss, o); err != nil {
			return err
		}
	}
	return inputs.ValidateOptions("sentence", t.model, o)
}

// ValidateGroup refuses several processes for a [CachedMultipleNegativesRankingLoss].
func (t *Task) ValidateGroup(world int) error {
	if isCached(t.loss) && world > 1 {
		return gradcache.ValidateGroup("sentence", t.loss, world)
	}
	return nil
}

// Model returns the model.
func (t *Task) Model() any { return t.model }

// WriteConfig writes everything in a model's folder except the weights of the encoder.
func (t *Task) WriteConfig(dir string) error { return t.model.WriteConfig(dir) }

// Collate pads the texts of samples to a batch. It refuses what the loss or the model cannot take.
func (t *Task) Collate(samples []Sample) (b Batch, err error) {
	b.Rows = len(samples)
	columns := len(samples[0].Texts)
	for i, s := range samples {
		if reason := t.fault(s, columns); reason != "" {
			return b, &inputs.SampleError{Package: "sentence", Index: i, Reason: reason}
		}
		switch t.wants.Label {
		case ScoreLabel:
			b.Labels = append(b.Labels, s.Score)
		case TargetLabel:
			b.Labels = append(b.Labels, s.Target...)
		}
	}
	for _, pass := range t.passes(samples) {
		var texts []Text
		for _, column := range pass.columns {
			for _, s := range samples[pass.begin:pass.end] {
				texts = append(texts, s.Texts[column])
			}
		}
		one, err := t.model.collate(texts, t.padding)
		var fault *inputs.SampleError
		if errors.As(err, &fault) { // its index counts texts
			rows := pass.end - pass.begin
			fault.Reason = fmt.Sprintf("text %d: %s", pass.columns[fault.Index/rows], fault.Reason)
			fault.Index = pass.begin + fault.Index%rows
		}
		if err != nil {
			return b, err
		}
		b.Passes = append(b.Passes, one)
	}
	return b, nil
}

// pass is texts that go through the model together: those at some places of the samples from begin
// to end.
type pass struct {
	columns    []int
	begin, end int
}

// passes returns which texts of the samples go through the model together. As in
// sentence-transformers, these are all except the first of each sample, unless their prompts differ
// in length; or mini-batches, if the loss wants them.
func (t *Task) passes(samples []Sample) (passes []pass) {
	texts, together := samples[0].Texts, true
	for i := 2; i < len(texts); i++ {
		together = together && texts[i].PromptLength == texts[1].PromptLength
	}
	l, mini := t.loss.(cachedLoss)
	for i := range texts {
		if mini {
			for begin := 0; begin < len(samples); begin += l.miniBatch() {
				passes = append(passes, pass{[]int{i}, begin, min(begin+l.miniBatch(), len(samples))})
			}
			continue
		}
		if i < 2 || !together {
			passes = append(passes, pass{end: len(samples)})
		}
		last := &passes[len(passes)-1]
		last.columns = append(last.columns, i)
	}
	return passes
}

// fault returns the reason why the loss does not accept a sample of a batch, or the empty string if
// it does.
func (t *Task) fault(s Sample, columns int) string {
	n, least := len(s.Texts), max(1, t.wants.Texts)
	switch {
	case n < least || n > least && !t.wants.MoreTexts:
		more := map[bool]string{true: " or more"}[t.wants.MoreTexts]
		return fmt.Sprintf("there are %d texts; a %T wants %d%s", n, t.loss, least, more)
	case n != columns:
		return fmt.Sprintf("there are %d texts, but the first sample has %d; want as many in all samples of a batch", n,
			columns)
	case t.wants.Label == ScoreLabel && s.Score != s.Score:
		return "Score is no number (NaN)"
	case t.wants.Label == TargetLabel && len(s.Target) != t.model.EmbeddingDimension():
		return fmt.Sprintf("Target has %d numbers, but an embedding of the model has %d", len(s.Target),
			t.model.EmbeddingDimension())
	}
	if t.wants.Label == TargetLabel {
		for i, v := range s.Target {
			if math.IsNaN(float64(v)) {
				return fmt.Sprintf("Target[%d] is no number (NaN)", i)
			}
		}
	}
	return ""
}

// Loss runs the model on a batch.
func (t *Task) Loss(p engine.ForwardPass, b Batch) engine.Loss {
	if l, ok := t.loss.(cachedLoss); ok && torch.IsGradEnabled() {
		t.refuseParts(p)
		return engine.Mean(t.cachedLoss(p, b, l), b.Rows)
	}
	return t.LossOf(p, t.Predict(p, b))
}

// Predict runs the model on a batch and returns the embeddings, [B, D] for each text of a sample,
// and labels.
func (t *Task) Predict(p engine.ForwardPass, b Batch) (o engine.Outputs) {
	o.Rows = b.Rows
	made := make([]torch.Tensor, len(b.Passes))
	for i, pass := range b.Passes {
		made[i] = t.model.Embed(p, pass)
	}
	o.Logits = t.columns(made, b.Rows)
	if t.wants.Label != NoLabel {
		o.Labels = []torch.Tensor{t.labels(p, b)}
	}
	return o
}

// columns returns the embeddings of the texts at each place, [B, D], from those of the passes.
func (t *Task) columns(passes []torch.Tensor, rows int) (columns []torch.Tensor) {
	if l, ok := t.loss.(cachedLoss); ok {
		for part := range slices.Chunk(passes, (rows-1)/l.miniBatch()+1) {
			columns = append(columns, torch.Cat(part, 0))
		}
		return columns
	}
	for _, x := range passes {
		n := x.Size(0) / int64(rows)
		x = x.Reshape(n, int64(rows), x.Size(1))
		for i := range n {
			columns = append(columns, x.Select(0, i))
		}
	}
	return columns
}

func (t *Task) labels(p engine.ForwardPass, b Batch) torch.Tensor {
	if t.wants.Label == TargetLabel {
		return engine.Input(p, b.Labels, int64(b.Rows), int64(t.model.EmbeddingDimension()))
	}
	return engine.Input(p, b.Labels)
}

// Inputs lists what Loss gives the device.
func (t *Task) Inputs(p engine.ForwardPass, b Batch) {
	if isCached(t.loss) {
		gradcache.NoGraph(p, t.loss)
		return
	}
	for _, pass := range b.Passes {
		pass.To(p)
		t.model.Pooling.places(p, pass)
	}
	if t.wants.Label != NoLabel {
		t.labels(p, b)
	}
}

// LossOf is the loss of the embeddings of a batch.
func (t *Task) LossOf(p engine.ForwardPass, o engine.Outputs) engine.Loss {
	t.refuseParts(p)
	var labels torch.Tensor
	if len(o.Labels) > 0 {
		labels = o.Labels[0]
	}
	return engine.Mean(t.loss.Of(o.Logits, labels), o.Rows)
}

// refuseParts panics if a batch is trained in parts with a loss that does not allow it.
func (t *Task) refuseParts(p engine.ForwardPass) {
	if p.Part && !t.wants.PerSample {
		panic(torch.Errorf("sentence.Task.Loss", torch.ErrNotSupported, "a %T compares the samples of a batch with one "+
			"another, so a batch cannot be trained in parts: leave DivideOnOutOfMemory out and take a smaller BatchSize",
			t.loss))
	}
}

// Observe notes that an evaluation is running; evaluators have their own texts.
func (t *Task) Observe(Batch, engine.Outputs) { t.observed = true }

// Metrics ends an evaluation with the results of the evaluators.
func (t *Task) Metrics() map[string]float64 {
	all := map[string]float64{}
	if !t.observed {
		return all
	}
	t.observed = false
	for _, e := range t.evaluators {
		metrics, err := e.Evaluate(context.Background(), t.model)
		if err != nil {
			panic(torch.Errorf("sentence.Task.Metrics", torch.ErrInvalid, "%v", err))
		}
		maps.Copy(all, metrics)
	}
	return all
}

// CountTokens counts the tokens of a batch that the model computes, and those that are not padding.
func (t *Task) CountTokens(b Batch) (all, nonPadding int64) {
	for _, pass := range b.Passes {
		n, m := pass.Batch.CountTokens(t.model)
		all, nonPadding = all+n, nonPadding+m
	}
	return all, nonPadding
}
