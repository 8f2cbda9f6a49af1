package ctc

import (
	"fmt"
	"slices"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/metrics"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// Model gives each frame of sound a logit for every class, [B, frames, classes].
type Model interface {
	inputs.WaveformModel
	// CTC returns the settings of the loss.
	CTC() Settings
}

// Sample is speech and the text in it.
type Sample struct {
	inputs.Waveform
	// Labels are the classes of the text's letters; negative ones, such as [inputs.IgnoreIndex], do
	// not count.
	Labels []int64
	Target string // the text, for metrics
}

// Batch is some speech, padded to one length, and its texts.
type Batch struct {
	inputs.WaveformBatch
	Labels  []int64 // of all texts, one after the other
	Counts  []int64 // how many labels each text has
	Targets []string
}

// TaskOptions configures [NewTask].
type TaskOptions struct {
	// Decode turns the best class of each frame into a text in evaluations, and Metrics compare it
	// with Target. Frames of padding are left out if the model knows them. Nil: evaluations give only
	// the loss.
	Decode  func(frames []int64) string
	Metrics []metrics.Metric[string]

	// SumWindow sums the gradients of the micro-batches of an accumulation window even if the loss is
	// a mean. transformers 5.17 does this under gradient_accumulation_steps, which makes gradients and
	// logged losses that many times as large. Losses that are sums are always summed.
	SumWindow bool
}

// Task ties a model to speech and the text in it.
type Task struct {
	engine.Observations[reading]
	inputs.WaveformTask
	model    Model
	limits   inputs.WaveformLimits
	settings Settings
	options  TaskOptions
	memory   data.Buffers[float32] // of batches
}

// reading is what a model has heard, and what was said.
type reading struct{ Got, Want string }

var _ interface {
	engine.Task[Sample, Batch]
	engine.Observer[Batch]
	engine.ObservationSharer
	engine.ObservationSorter
	engine.Configurer
	engine.OptionsValidator
	engine.Lengther[Sample]
	engine.Recycler[Batch]
	engine.TokenCounter[Batch]
	engine.ItemCounter[Batch]
	engine.Seeder
	engine.GeneratorOwner
} = (*Task)(nil)

// NewTask makes the task of a model.
func NewTask(m Model, o TaskOptions) (*Task, error) {
	if (o.Decode == nil) != (len(o.Metrics) == 0) {
		return nil, fmt.Errorf("ctc: TaskOptions.Decode and Metrics go together: Metrics score Decode's texts")
	}
	return &Task{WaveformTask: inputs.WaveformTask{Heard: m}, model: m, limits: m.WaveformLimits(), settings: m.CTC(),
		options: o}, nil
}

// Model returns the model.
func (t *Task) Model() any { return t.model }

// ValidateOptions refuses options that have no meaning for the loss: CTC sums over all ways in
// which letters and frames fit together, so that no frame has a class that could be smoothed.
func (t *Task) ValidateOptions(o engine.Options) error {
	if o.LabelSmoothing != 0 {
		return fmt.Errorf("ctc: Options.LabelSmoothing is %g; want 0: CTC knows no label of a frame that could be smoothed",
			o.LabelSmoothing)
	}
	return t.WaveformTask.ValidateOptions(o)
}

// Collate pads the speech of samples on the right to a batch and refuses what the model cannot
// take.
func (t *Task) Collate(samples []Sample) (b Batch, err error) {
	sounds := make([]inputs.Waveform, len(samples))
	for i, s := range samples {
		sounds[i] = s.Waveform
		labels := slices.DeleteFunc(slices.Clone(s.Labels), func(id int64) bool { return id < 0 })
		if at := slices.IndexFunc(labels, func(id int64) bool { return id >= t.settings.Classes }); at >= 0 {
			return b, &inputs.SampleError{Package: "ctc", Index: i,
				Reason: fmt.Sprintf("a label is %d; want 0 to %d (vocab_size)", labels[at], t.settings.Classes-1)}
		}
		b.Labels, b.Counts = append(b.Labels, labels...), append(b.Counts, int64(len(labels)))
		b.Targets = append(b.Targets, s.Target)
	}
	b.WaveformBatch, err = t.limits.Collate("ctc", sounds, t.memory.Get)
	return b, err
}

// Recycle takes the memory of a batch back: engine.Recycler.
func (t *Task) Recycle(b Batch) { t.memory.Put(b.Values) }

// forward runs the model on a batch.
func (t *Task) forward(p engine.ForwardPass, b Batch) torch.Tensor {
	return t.model.Forward(b.To(p), b.Lengths)
}

// Loss runs the model on a batch. In training it refuses a text that does not fit into the frames of
// its speech, and whose loss would be infinite: it panics with [*torch.Error].
func (t *Task) Loss(p engine.ForwardPass, b Batch) engine.Loss {
	if p.WindowLen > 0 && !t.settings.ZeroInfinity {
		t.checkFits(b)
	}
	logits := t.forward(p, b)
	return t.loss(t.settings.Loss(logits, b.Frames(t.limits), engine.Input(p, b.Labels), b.Counts), len(b.Counts))
}

func (t *Task) checkFits(b Batch) {
	rest := b.Labels
	for i, frames := range b.Frames(t.limits) {
		labels, need := rest[:b.Counts[i]], b.Counts[i]
		rest = rest[b.Counts[i]:]
		for k := 1; k < len(labels); k++ {
			if labels[k] == labels[k-1] {
				need++
			}
		}
		if need > frames {
			panic(torch.Errorf("ctc.Task", torch.ErrInvalid, "sample %d of the batch: %d labels, with a blank between equal "+
				"ones, need %d frames, but the model makes %d of the speech, so that the loss is infinite; leave the sample out, "+
				"or set ctc_zero_infinity in config.json, which makes its loss 0", i, len(labels), need, frames))
		}
	}
}

func (t *Task) loss(value torch.Tensor, rows int) engine.Loss {
	if t.options.SumWindow || t.settings.Reduction == Sum {
		return engine.PerItem(value, rows)
	}
	return engine.Mean(value, rows)
}

// Predict runs the model on a batch: logits, [B, frames, classes], the number of frames of each
// row, [B], and labels, [B, L], with [inputs.IgnoreIndex] in padding.
func (t *Task) Predict(p engine.ForwardPass, b Batch) engine.Outputs {
	longest := slices.Max(b.Counts)
	labels := slices.Repeat([]int64{inputs.IgnoreIndex}, len(b.Counts)*int(longest))
	rest := b.Labels
	for i, n := range b.Counts {
		copy(labels[i*int(longest):], rest[:n])
		rest = rest[n:]
	}
	rows := int64(len(b.Counts))
	return engine.Outputs{Logits: []torch.Tensor{t.forward(p, b), engine.Input(p, b.Frames(t.limits))},
		Labels: []torch.Tensor{engine.Input(p, labels, rows, longest)}, Rows: int(rows)}
}

// LossOf returns the loss of the outputs of Predict, bit for bit the same as Loss.
func (t *Task) LossOf(_ engine.ForwardPass, o engine.Outputs) engine.Loss {
	counted := o.Labels[0].GeScalar(0)
	lengths := torch.Values[int64](counted.SumDim([]int64{1}, false, torch.Int64))
	return t.loss(t.settings.Loss(o.Logits[0], torch.Values[int64](o.Logits[1]), o.Labels[0].MaskedSelect(counted),
		lengths), o.Rows)
}

// Observe reads what the model has heard in an evaluation batch.
func (t *Task) Observe(b Batch, o engine.Outputs) {
	if t.options.Decode == nil {
		return
	}
	best := o.Logits[0].ArgMax(-1, false)
	classes, width := torch.Values[int64](best), best.Size(1)
	for i, n := range b.Frames(t.limits) {
		row := classes[int64(i)*width:]
		t.Note(reading{t.options.Decode(row[:n]), b.Targets[i]})
	}
}

// Metrics ends an evaluation.
func (t *Task) Metrics() map[string]float64 {
	for _, r := range t.Noted() {
		for _, m := range t.options.Metrics {
			m.Add(r.Got, r.Want)
		}
	}
	return engine.Results(t.options.Metrics)
}

// CountItems counts the texts of a batch whose losses are summed, so that a batch that is divided
// has the loss of the whole: engine.ItemCounter. Texts whose loss is a mean are not counted.
func (t *Task) CountItems(b Batch) int64 {
	if t.settings.Reduction == Sum {
		return int64(len(b.Counts))
	}
	return 0
}

// Length is the number of samples of the speech: engine.Lengther.
func (t *Task) Length(s Sample) int { return len(s.Values) }

// CountTokens counts the samples of a batch, and those that are not padding, as transformers counts
// input_values.
func (t *Task) CountTokens(b Batch) (all, nonPadding int64) { return b.Tokens() }
