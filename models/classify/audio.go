package classify

import (
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/metrics"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// AudioModel computes the logits of sound, [B, labels].
type AudioModel interface {
	inputs.WaveformModel
	Head() Head
}

// AudioSample is sound as the samples that a model takes, with its label.
type AudioSample struct {
	inputs.Waveform

	Label   int64     // the class, for a single-label head
	Targets []float32 // one number for each logit, for regression and multi-label heads
}

// AudioBatch is some sound, padded to one length.
type AudioBatch struct {
	inputs.WaveformBatch

	Labels  []int64   // for a single-label head
	Targets []float32 // else: rows times labels
}

func (b AudioBatch) answers() answers { return answers{int(b.Shape[0]), b.Labels, b.Targets} }

// AudioTaskOptions configures [NewAudioTask]. Its fields are those of [TaskOptions].
type AudioTaskOptions struct {
	Metrics      []metrics.Metric[int]
	ValueMetrics []metrics.Metric[float64]
	SumWindow    bool
}

// AudioTask ties a model to labelled sound.
type AudioTask struct {
	judge
	inputs.WaveformTask
	model  AudioModel
	memory data.Buffers[float32] // of batches
}

var _ interface {
	engine.Task[AudioSample, AudioBatch]
	engine.Observer[AudioBatch]
	engine.ObservationSharer
	engine.ObservationSorter
	engine.LabelCounter[AudioBatch]
	engine.TokenCounter[AudioBatch]
	engine.Configurer
	engine.OptionsValidator
	engine.Lengther[AudioSample]
	engine.Recycler[AudioBatch]
	engine.Seeder
	engine.GeneratorOwner
} = (*AudioTask)(nil)

// NewAudioTask makes the task of a model.
func NewAudioTask(m AudioModel, o AudioTaskOptions) (*AudioTask, error) {
	j, err := newJudge(m.Head(), o.Metrics, o.ValueMetrics, o.SumWindow)
	if err != nil {
		return nil, err
	}
	return &AudioTask{judge: j, WaveformTask: inputs.WaveformTask{Heard: m}, model: m}, nil
}

// Model returns the model.
func (t *AudioTask) Model() any { return t.model }

// Collate pads sound on the right to a batch and refuses what the model cannot take.
func (t *AudioTask) Collate(samples []AudioSample) (b AudioBatch, err error) {
	sounds, a := make([]inputs.Waveform, len(samples)), answers{}
	for i, s := range samples {
		if reason := t.fault(s.Label, s.Targets); reason != "" {
			return b, &SampleError{Package: "classify", Index: i, Reason: reason}
		}
		t.take(&a, s.Label, s.Targets)
		sounds[i] = s.Waveform
	}
	joined, err := t.model.WaveformLimits().Collate("classify", sounds, t.memory.Get)
	return AudioBatch{WaveformBatch: joined, Labels: a.labels, Targets: a.targets}, err
}

// Recycle takes the memory of a batch back: engine.Recycler.
func (t *AudioTask) Recycle(b AudioBatch) { t.memory.Put(b.Values) }

// Loss runs the model on a batch.
func (t *AudioTask) Loss(p engine.ForwardPass, b AudioBatch) engine.Loss {
	return t.LossOf(p, t.Predict(p, b))
}

// Predict runs the model on a batch and returns logits and labels.
func (t *AudioTask) Predict(p engine.ForwardPass, b AudioBatch) engine.Outputs {
	logits := t.model.Forward(b.To(p), b.Lengths)
	return engine.Outputs{Logits: []torch.Tensor{logits}, Labels: []torch.Tensor{t.labels(p, b.answers())},
		Rows: int(b.Shape[0])}
}

// Observe records an evaluation batch.
func (t *AudioTask) Observe(b AudioBatch, o engine.Outputs) { t.observe(b.answers(), o) }

// Length is the number of samples of the sound: engine.Lengther.
func (t *AudioTask) Length(s AudioSample) int { return len(s.Values) }

// CountLabels counts the sounds that the loss is averaged over: engine.LabelCounter.
func (t *AudioTask) CountLabels(b AudioBatch) int64 { return b.answers().counted() }

// CountTokens counts the samples of a batch, and those that are not padding, as transformers counts
// input_values.
func (t *AudioTask) CountTokens(b AudioBatch) (all, nonPadding int64) { return b.Tokens() }
