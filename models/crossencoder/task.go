package crossencoder

import (
	"cmp"
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

// Sample is a query with documents, and the labels that a [Loss] wants. A pair of texts without
// such roles is a query with one document.
type Sample struct {
	Query     string
	Documents []string
	Labels    []float32 // of the documents, see the losses
	Class     int64     // of a pair, for CrossEntropyLoss
}

// Batch is some samples as token ids.
type Batch struct {
	// Passes are the pairs as they go through the model: each query with its first document, with
	// its second, and so on; of lists, all pairs in order, Wants.MiniBatchSize at a time. A
	// CachedMultipleNegativesRankingLoss makes its own passes of the texts.
	Passes []inputs.Batch
	Rows   int // samples

	Classes []int64   // for losses that want classes
	Labels  []float32 // for losses that want numbers: Rows times Width
	Width   int
	Places  []int64 // for losses on lists: where in Labels each pair has its label

	samples []Sample // for pairs that are made when the model runs
}

// TaskOptions configures [NewTask].
type TaskOptions struct {
	Loss       Loss         // nil: BinaryCrossEntropyLoss for models with one label, else CrossEntropyLoss
	Prompt     string       // is put before each query, or is the system message of each pair
	Padding    data.Padding // how wide a batch becomes; on the right only
	Evaluators []Evaluator  // what evaluations report besides the loss
}

// Task ties a model to samples: what CrossEncoderTrainer trains.
type Task struct {
	model    *CrossEncoder
	loss     Loss
	wants    Wants
	options  TaskOptions
	observed bool // an evaluation is running
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
func NewTask(m *CrossEncoder, o TaskOptions) (*Task, error) {
	if o.Loss == nil {
		o.Loss = CrossEntropyLoss{}
		if m.NumLabels() == 1 {
			o.Loss = BinaryCrossEntropyLoss{}
		}
	}
	if err := checkLoss(o.Loss, m); err != nil {
		return nil, fmt.Errorf("crossencoder: TaskOptions.Loss: %T: %w", o.Loss, err)
	}
	if err := m.carriesPairs(); err != nil {
		return nil, err
	}
	if err := m.Limits().CheckPadding("crossencoder", o.Padding); err != nil {
		return nil, err
	}
	for _, e := range o.Evaluators {
		if err := e.Check(m); err != nil {
			return nil, err
		}
	}
	return &Task{model: m, loss: o.Loss, wants: o.Loss.Wants(), options: o}, nil
}

// ValidateOptions refuses options that do not work with the model, and LabelSmoothing, since the
// loss is chosen by TaskOptions.
func (t *Task) ValidateOptions(o engine.Options) error {
	if o.LabelSmoothing != 0 {
		return fmt.Errorf("crossencoder: Options.LabelSmoothing is %g, which no loss of cross encoders has; leave it out",
			o.LabelSmoothing)
	}
	if isCached(t.loss) {
		if err := gradcache.ValidateOptions("crossencoder", t.loss, o); err != nil {
			return err
		}
	}
	return inputs.ValidateOptions("crossencoder", t.model, o)
}

// ValidateGroup refuses several processes for a [CachedMultipleNegativesRankingLoss].
func (t *Task) ValidateGroup(world int) error {
	if isCached(t.loss) && world > 1 {
		return gradcache.ValidateGroup("crossencoder", t.loss, world)
	}
	return nil
}

// Model returns the model.
func (t *Task) Model() any { return t.model }

// WriteConfig writes everything in a model's folder except the weights.
func (t *Task) WriteConfig(dir string) error { return t.model.WriteConfig(dir) }

// Collate tokenizes the pairs of samples and pads them to batches. It refuses what the loss or the
// model cannot take.
func (t *Task) Collate(samples []Sample) (b Batch, err error) {
	b.Rows, b.samples = len(samples), slices.Clone(samples)
	for i, s := range samples {
		if reason := t.fault(s, len(samples[0].Documents)); reason != "" {
			return b, &inputs.SampleError{Package: "crossencoder", Index: i, Reason: reason}
		}
	}
	t.label(&b)
	for _, pass := range t.passes(samples) {
		pairs := make([][2]string, len(pass))
		for i, at := range pass {
			pairs[i] = [2]string{samples[at.sample].Query, samples[at.sample].Documents[at.document]}
		}
		one, err := t.model.collate(t.options.Prompt, pairs, t.options.Padding)
		var fault *inputs.SampleError
		if errors.As(err, &fault) { // its index counts pairs
			at := pass[fault.Index]
			fault.Index, fault.Reason = at.sample, fmt.Sprintf("document %d: %s", at.document, fault.Reason)
		}
		if err != nil {
			return b, err
		}
		b.Passes = append(b.Passes, one)
	}
	return b, nil
}

// pair is a query with one of its documents.
type pair struct{ sample, document int }

// passes returns which pairs go through the model together.
func (t *Task) passes(samples []Sample) (passes [][]pair) {
	if t.wants.Lists {
		var all []pair
		for i, s := range samples {
			for k := range s.Documents {
				all = append(all, pair{i, k})
			}
		}
		size := cmp.Or(t.wants.MiniBatchSize, len(samples))
		if size < 0 {
			size = len(all)
		}
		return slices.Collect(slices.Chunk(all, size))
	}
	for k := range samples[0].Documents {
		var column []pair
		for i := range samples {
			column = append(column, pair{i, k})
		}
		passes = append(passes, column)
	}
	return passes
}

// label fills in the labels of a batch.
func (t *Task) label(b *Batch) {
	switch t.wants.Label {
	case NoLabel:
	case ClassLabel:
		for _, s := range b.samples {
			b.Classes = append(b.Classes, s.Class)
		}
	case MarginLabels:
		b.Width = len(b.samples[0].Documents) - 1
		for _, s := range b.samples {
			margins := s.Labels
			if len(margins) > b.Width {
				margins = nil
				for _, other := range s.Labels[1:] {
					margins = append(margins, s.Labels[0]-other)
				}
			}
			b.Labels = append(b.Labels, margins...)
		}
	case ScoreLabels:
		for _, s := range b.samples {
			b.Width = max(b.Width, len(s.Documents))
		}
		for i, s := range b.samples {
			for k := range b.Width {
				label := float32(math.Inf(-1))
				if k < len(s.Documents) {
					label = s.Labels[k]
					b.Places = append(b.Places, int64(i*b.Width+k))
				}
				b.Labels = append(b.Labels, label)
			}
		}
	}
}

// fault returns the reason why the loss does not accept a sample of a batch, or the empty string if
// it does.
func (t *Task) fault(s Sample, documents int) string {
	n, least := len(s.Documents), max(1, t.wants.Documents)
	more := t.wants.MoreDocuments || t.wants.Lists
	if n < least || n > least && !more {
		orMore := map[bool]string{true: " or more"}[more]
		return fmt.Sprintf("there are %d documents; a %T wants %d%s", n, t.loss, least, orMore)
	}
	if n != documents && !t.wants.Lists {
		return fmt.Sprintf("there are %d documents, but the first sample has %d; want as many in all samples of a batch", n,
			documents)
	}
	switch labels := len(s.Labels); t.wants.Label {
	case NoLabel:
		return ""
	case ClassLabel:
		if last := int64(t.model.NumLabels()) - 1; s.Class < 0 || s.Class > last {
			return fmt.Sprintf("Class is %d; want 0 to %d", s.Class, last)
		}
		return ""
	case MarginLabels:
		if labels != n && labels != n-1 {
			return fmt.Sprintf("there are %d Labels for %d documents; want %d scores, or %d differences", labels, n, n, n-1)
		}
	case ScoreLabels:
		if labels != n {
			return fmt.Sprintf("there are %d Labels for %d documents; want one for each", labels, n)
		}
	}
	for i, v := range s.Labels {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return fmt.Sprintf("Labels[%d] is %g; want a finite number", i, v)
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

// Predict runs the model on a batch and returns logits and labels as [Loss] gets them.
func (t *Task) Predict(p engine.ForwardPass, b Batch) (o engine.Outputs) {
	o.Rows = b.Rows
	if t.wants.Label != NoLabel {
		o.Labels = []torch.Tensor{t.labels(p, b)}
	}
	if l, ok := t.loss.(cachedLoss); ok {
		for _, pass := range t.miniBatches(b, l) {
			o.Logits = append(o.Logits, t.logits(engine.ForwardPass{Device: p.Device}, pass))
		}
		o.Logits = columns(o.Logits, b.Rows)
		return o
	}
	for i, pass := range b.Passes {
		o.Logits = append(o.Logits, t.logits(p, pass))
		if l, ok := t.loss.(borrower); ok && i == 0 {
			for _, pairs := range t.borrowed(b, l) {
				// Inputs has not listed them
				o.Logits = append(o.Logits, t.logits(engine.ForwardPass{Device: p.Device}, t.late(pairs)))
			}
		}
	}
	if t.wants.Lists {
		o.Logits = []torch.Tensor{matrix(p, b, o.Logits)}
	}
	return o
}

// logits runs the model on pairs. As accelerate does with the outputs of a model, it converts them
// to float32.
func (t *Task) logits(p engine.ForwardPass, b inputs.Batch) torch.Tensor {
	return b.Forward(p, t.model).ToDType(torch.Float32)
}

// borrowed pairs the queries with documents of other samples.
func (t *Task) borrowed(b Batch, l borrower) (columns [][][2]string) {
	for _, indices := range l.borrow(b.Rows, len(b.samples[0].Documents)) {
		pairs := make([][2]string, b.Rows)
		for row, i := range indices {
			other := b.samples[int(i)%b.Rows]
			pairs[row] = [2]string{b.samples[row].Query, other.Documents[int(i)/b.Rows]}
		}
		columns = append(columns, pairs)
	}
	return columns
}

// late makes a batch of pairs when the model runs.
func (t *Task) late(pairs [][2]string) inputs.Batch {
	b, err := t.model.collate(t.options.Prompt, pairs, t.options.Padding)
	if err != nil {
		panic(torch.Errorf("crossencoder.Task.Predict", torch.ErrInvalid, "%v", err))
	}
	return b
}

// matrix puts the logits of lists into the places of their labels.
func matrix(p engine.ForwardPass, b Batch, logits []torch.Tensor) torch.Tensor {
	x := torch.Cat(logits, 0).View(-1)
	all := torch.TensorOptions{DType: x.DType(), Device: x.Device()}.Full(padded, int64(b.Rows*b.Width))
	places := engine.Input(p, b.Places)
	return all.IndexPut([]torch.Tensor{places}, x, false).View(int64(b.Rows), int64(b.Width))
}

func (t *Task) labels(p engine.ForwardPass, b Batch) torch.Tensor {
	if t.wants.Label == ClassLabel {
		return engine.Input(p, b.Classes)
	}
	return engine.Input(p, b.Labels, int64(b.Rows), int64(b.Width))
}

// Inputs lists what Predict gives the device, except for documents of other samples, which are
// drawn when the model runs.
func (t *Task) Inputs(p engine.ForwardPass, b Batch) {
	if t.wants.Label != NoLabel {
		t.labels(p, b)
	}
	if isCached(t.loss) {
		gradcache.NoGraph(p, t.loss)
		return
	}
	for _, pass := range b.Passes {
		pass.To(p)
	}
	if t.wants.Lists {
		engine.Input(p, b.Places)
	}
	if _, ok := t.loss.(borrower); ok {
		p.NoGraph("MultipleNegativesRankingLoss draws the documents of other samples that a query gets")
	}
}

// LossOf is the loss of the logits of a batch.
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
		panic(torch.Errorf("crossencoder.Task.Loss", torch.ErrNotSupported, "a %T compares the samples of a batch with one "+
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
	for _, e := range t.options.Evaluators {
		metrics, err := e.Evaluate(context.Background(), t.model)
		if err != nil {
			panic(torch.Errorf("crossencoder.Task.Metrics", torch.ErrInvalid, "%v", err))
		}
		maps.Copy(all, metrics)
	}
	return all
}

// CountTokens counts the tokens of a batch that the model computes, without documents of other
// samples, and those that are not padding.
func (t *Task) CountTokens(b Batch) (all, nonPadding int64) {
	for _, pass := range b.Passes {
		n, m := pass.CountTokens(t.model)
		all, nonPadding = all+n, nonPadding+m
	}
	return all, nonPadding
}
