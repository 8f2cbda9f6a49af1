package seq2seq

import (
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/metrics"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// SpeechModel predicts the tokens of a target text from speech.
type SpeechModel interface {
	// ForwardPair maps log-mel features, [B, bins, frames], and the token ids of target texts, [B, T],
	// to a logit for every word that may follow each target token, [B, T, vocabulary].
	ForwardPair(features, decoderIDs torch.Tensor) torch.Tensor
	SpeechLimits() inputs.SpeechLimits
	// MaskGenerator is the generator of the masks that the model draws over features in training
	// (SpecAugment); nil: it draws none.
	MaskGenerator() *torch.Generator
	Decoder
}

// SpeechSample is speech and its target text.
type SpeechSample struct {
	inputs.Speech
	// Labels is the target, with its end token, but without the token that begins every text;
	// [inputs.IgnoreIndex] where a token is not learned.
	Labels []int64
	Target string // the target as text, for metrics
}

// SpeechBatch is some speech, and its target texts.
type SpeechBatch struct {
	inputs.SpeechBatch
	TargetBatch
}

// SpeechTaskOptions configures [NewSpeechTask]. Its fields are those of [TaskOptions].
type SpeechTaskOptions struct {
	TargetPadding data.Padding
	Write         func(p engine.ForwardPass, b inputs.SpeechBatch) []string
	Metrics       []metrics.Metric[string]
}

// SpeechTask ties a model to speech and the text in it.
type SpeechTask struct {
	speechSignal
	inputs.MaskTask
}

// speechSignal is embedded in SpeechTask.
type speechSignal = signal[inputs.Speech, inputs.SpeechBatch]

var _ interface {
	engine.Task[SpeechSample, SpeechBatch]
	engine.Observer[SpeechBatch]
	engine.ObservationSharer
	engine.ItemCounter[SpeechBatch]
	engine.Configurer
	engine.Recycler[SpeechBatch]
	engine.Seeder
	engine.GeneratorOwner
} = (*SpeechTask)(nil)

// NewSpeechTask makes the task of a model.
func NewSpeechTask(m SpeechModel, o SpeechTaskOptions) (*SpeechTask, error) {
	t := &SpeechTask{speechSignal{forward: m.ForwardPair}, inputs.MaskTask{MaskGenerator: m.MaskGenerator()}}
	t.collate = func(pkg string, speech []inputs.Speech, memory func(n int) []float32) (inputs.SpeechBatch, error) {
		return m.SpeechLimits().Collate(pkg, speech, memory)
	}
	return t, t.set(m, o.TargetPadding, o.Write, o.Metrics)
}

// Collate joins samples to a batch, pads the targets on the right, and refuses what the model
// cannot take.
func (t *SpeechTask) Collate(samples []SpeechSample) (b SpeechBatch, err error) {
	speech, written := make([]inputs.Speech, len(samples)), make([]target, len(samples))
	for i, s := range samples {
		speech[i], written[i] = s.Speech, target{s.Labels, s.Target}
	}
	b.SpeechBatch, b.TargetBatch, err = t.joined(speech, written)
	return b, err
}

// Recycle takes the memory of a batch back: engine.Recycler.
func (t *SpeechTask) Recycle(b SpeechBatch) { t.memory.Put(b.Features) }

// Loss runs the model on a batch.
func (t *SpeechTask) Loss(p engine.ForwardPass, b SpeechBatch) engine.Loss {
	return t.LossOf(p, t.Predict(p, b))
}

// Predict runs the model on a batch: logits and labels.
func (t *SpeechTask) Predict(p engine.ForwardPass, b SpeechBatch) engine.Outputs {
	return t.predict(p, b.SpeechBatch, b.TargetBatch)
}

// Observe has the model write down the speech of an evaluation batch.
func (t *SpeechTask) Observe(b SpeechBatch, _ engine.Outputs) {
	t.observe(b.SpeechBatch, b.TargetBatch)
}

// CountItems counts the tokens to predict: num_items_in_batch.
func (t *SpeechTask) CountItems(b SpeechBatch) int64 { return b.countItems() }
