package replay

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/internal/conformance/recorded"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/internal/conformance/trace"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
)

// keepPredictions keeps the predictions of a phase for final.safetensors.
func (h *hfRun) keepPredictions() {
	p := h.step.Predictions()
	switch {
	case p == nil || len(p.Logits) == 0:
		spec.Failf("the step has kept no predictions")
	case !h.args.asked.EvalDoConcatBatches || h.args.noLabels || h.args.asked.PredictionLossOnly:
		spec.Failf("the predictions are not one array")
	}
	h.predicted = []torch.Named{{Name: "predict.predictions", Tensor: p.Logits[0]}}
	if len(p.Labels) > 0 {
		h.predicted = append(h.predicted, torch.Named{Name: "predict.label_ids", Tensor: p.Labels[0]})
	}
}

// recordUpdate is called when the loop has counted an update.
func (h *hfRun) recordUpdate(r *trainer.Run) error {
	value, ok, err := h.step.GradNorm()
	if err != nil {
		return err
	}
	more := trace.Object{}
	if h.step.current.model.takesItems || h.spec.LossFunc != "" {
		more["num_items"] = h.step.items
	}
	if h.args.trainer.CountTokens {
		more["num_input_tokens_seen"] = h.step.tokens
	}
	h.update(r.GlobalStep, r.Epoch, orNil(trace.Hex(value), ok), h.step.rates, h.step.current.model, h.step.skipped, more)
	return nil
}

// recordEvaluation is called with the results of an evaluation.
func (h *hfRun) recordEvaluation(e trainer.Evaluation, m trainer.Metrics) {
	metrics := trace.Object{}
	for name, value := range m {
		metrics[e.Name+"_"+name] = value
	}
	if e.Rows == 0 { // a stream
		e.Rows = len(h.order)
	}
	h.evaluation(trace.Of("step", h.watch.step, "epoch", h.watch.epoch, "prefix", e.Name,
		"num_samples", e.Rows, "metrics", metrics))
}

// end assembles the trace.
func (h *hfRun) end(refused error) *Run {
	if h.trainer == nil {
		return &Run{Trace: h.trace(refused, "train_output", h.result)}
	}
	m := h.step.current.model
	b := h.watch.best
	found := b.Metric != ""
	saved := found && h.args.saves()
	best := trace.Of("metric", orNil(b.Value, found), "step", orNil(b.GlobalStep, saved),
		"checkpoint", orNil(filepath.Base(b.Checkpoint), saved && b.Checkpoint != ""))
	optimizer := h.step.Optimizer()
	if !h.optimizer { // the recorded trainer makes it when training begins
		optimizer = nil
	}
	final := slices.Concat(finalTensors(m, optimizer), h.predicted, h.rms)
	if h.args.asked.Optim == "adafactor" {
		integerSteps(final)
	}
	return &Run{
		Trace: h.trace(refused, "log_history", slices.Concat(h.history, logRows(h.trainer.History())),
			"checkpoints", h.checkpointFacts(m), "best", best, "train_output", h.result),
		final: final,
	}
}

// checkpointFacts describes the contents of the checkpoints.
func (h *hfRun) checkpointFacts(m *model) trace.Object {
	names := h.saved("checkpoint-*")
	hashes, states := trace.Object{}, trace.Object{}
	for _, name := range names {
		dir := filepath.Join(h.dir, name)
		state := readState(dir)
		h.args.keepIntervals(state)
		stored, params := recorded.Tensors(filepath.Join(dir, "model.safetensors")), nn.Params(m.module)
		for i, p := range params {
			params[i].Tensor = stored[p.Name]
		}
		hashes[name] = recorded.Hash(params...)
		states[name] = state
	}
	return trace.Of("written", h.written, "after", names, "weights_sha256", hashes, "state", states)
}

// readState reads trainer_state.json of a checkpoint, without the log and the states of callbacks.
func readState(checkpoint string) map[string]any {
	state := spec.Must(trace.Parse(spec.Must(os.ReadFile(filepath.Join(checkpoint, "trainer_state.json")))))
	delete(state, "log_history")
	delete(state, "stateful_callbacks")
	if best, ok := state["best_model_checkpoint"].(string); ok {
		state["best_model_checkpoint"] = filepath.Base(best)
	}
	return state
}

// stateInt returns an integer of a state, or 0 if it is absent.
func stateInt(state map[string]any, name string) int64 {
	o := spec.NewObject("trainer_state.json", state)
	n := o.Int(name, 0)
	spec.Check(o.Err())
	return int64(n)
}

// readLog returns the log of a checkpoint.
func readLog(checkpoint string) []any {
	var state struct {
		Log []trainer.Logs `json:"log_history"`
	}
	text := spec.Must(os.ReadFile(filepath.Join(checkpoint, "trainer_state.json")))
	spec.Check(json.Unmarshal(text, &state))
	return logRows(state.Log)
}

// The Adafactor of transformers keeps the following in its state, package optim does not, because
// no update depends on it.

// rootMeanSquares returns the root mean squares of the parameters before an update: the state RMS.
func rootMeanSquares(o optim.Optimizer) (all []torch.Named) {
	torch.NoGrad(func() {
		torch.Scope(func() {
			for _, p := range o.Params() {
				if p.Tensor.Grad().Defined() {
					norm := torch.Call("aten::linalg_vector_norm", p.Tensor, 2, nil, false, nil)[0]
					rms := norm.DivScalar(math.Sqrt(float64(p.Tensor.Numel()))).Keep()
					all = append(all, torch.Named{Name: "optim." + p.Name + ".RMS", Tensor: rms})
				}
			}
		})
	})
	return all
}

// integerSteps converts update counts to integers, as they are in Python.
func integerSteps(final []torch.Named) {
	for i, t := range final {
		if strings.HasPrefix(t.Name, "optim.") && strings.HasSuffix(t.Name, ".step") &&
			t.Tensor.DType() == torch.Float32 && t.Tensor.Numel() == 1 {
			final[i].Tensor = t.Tensor.ToDType(torch.Int64)
		}
	}
}
