package seq2seq

import (
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/metrics"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/internal/writing"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// signal is what the tasks share whose source is not text but an image or speech: sources of type S,
// several of which are a B.
type signal[S any, B signals] struct {
	writing.Evaluation[B]
	targets
	forward func(source, decoderIDs torch.Tensor) torch.Tensor
	collate func(pkg string, sources []S, memory func(n int) []float32) (B, error)
	memory  data.Buffers[float32] // of batches
	pass    engine.ForwardPass    // of the last call of predict
}

// signals are the sources of a batch.
type signals interface {
	To(p engine.ForwardPass) torch.Tensor
}

// set fills in a task, which the fields of its options describe.
func (t *signal[S, B]) set(m Decoder, p data.Padding, write func(p engine.ForwardPass, b B) []string,
	scores []metrics.Metric[string]) (err error) {
	if t.targets, err = newTargets(m, p); err != nil {
		return err
	}
	t.Evaluation, err = writing.New("seq2seq", write, scores)
	return err
}

// joined pads target texts to a batch, with their sources.
func (t *signal[S, B]) joined(sources []S, written []target) (b B, texts TargetBatch, err error) {
	if texts, err = t.join(written); err != nil {
		return b, texts, err
	}
	b, err = t.collate("seq2seq", sources, t.memory.Get)
	return b, texts, err
}

// predict runs the model on a batch: logits and labels.
func (t *signal[S, B]) predict(p engine.ForwardPass, b B, texts TargetBatch) engine.Outputs {
	t.pass = p
	return texts.outputs(p, t.forward(b.To(p), inputs.Matrix(p, texts.DecoderIDs)))
}

// observe has the model write the texts of an evaluation batch.
func (t *signal[S, B]) observe(b B, texts TargetBatch) {
	if t.Writes() {
		t.Score(t.pass, b, texts.Targets)
	}
}
