package replay

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/gotrainer/gotrainer/internal/conformance/recorded"
	"github.com/gotrainer/gotrainer/internal/conformance/trace"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
)

// keepPredictions copies the predictions of a phase for final.safetensors.
func (h *hfRun) keepPredictions() error {
	p := h.step.Predictions()
	if p == nil || len(p.Logits) == 0 {
		return fmt.Errorf("the step has kept no predictions")
	}
	if !h.args.concat || h.args.noLabels || h.args.lossOnly {
		return fmt.Errorf("the predictions are not one array")
	}
	list := []torch.Named{{Name: "predictions", Tensor: p.Logits[0]}}
	if len(p.Labels) > 0 {
		list = append(list, torch.Named{Name: "label_ids", Tensor: p.Labels[0]})
	}
	h.predicted = copies("predict.", list)
	return nil
}

// recordUpdate is called when the loop has counted an update.
func (h *hfRun) recordUpdate(r *trainer.Run) error {
	var norm *float64
	value, ok, err := h.step.GradNorm()
	if err != nil {
		return err
	}
	if ok {
		norm = &value
	}
	var more trace.Object
	if m := h.step.task().model; m.takesItems() || h.spec.LossFunc != "" {
		more = more.With("num_items", h.step.items)
	}
	if h.args.tokens != "no" {
		more = more.With("num_input_tokens_seen", h.step.tokens)
	}
	h.rec.update(r.GlobalStep, r.Epoch, norm, h.step.rates, h.step.task().model, h.step.skipped, more)
	return nil
}

// recordEvaluation is called when the numbers of an evaluation are known.
func (h *hfRun) recordEvaluation(e trainer.Evaluation, m trainer.Metrics) {
	metrics := map[string]any{}
	for name, value := range m {
		metrics[e.Name+"_"+name] = value
	}
	if e.Rows == 0 { // a stream
		e.Rows = h.step.seen
	}
	h.rec.evaluation(trace.Of("step", h.watch.step, "epoch", h.watch.epoch, "prefix", e.Name,
		"num_samples", e.Rows, "metrics", metrics))
}

// checkpoints are the folders left, in the order of their numbers.
func (h *hfRun) checkpoints() ([]string, error) {
	paths, err := filepath.Glob(filepath.Join(h.out, "checkpoint-*"))
	names := []string{}
	for _, path := range paths {
		names = append(names, filepath.Base(path))
	}
	slices.SortFunc(names, func(a, b string) int { return checkpointNumber(a) - checkpointNumber(b) })
	return names, err
}

// end puts the trace together.
func (h *hfRun) end(err error) (*Run, error) {
	if h.trainer == nil {
		return &Run{Trace: h.rec.trace(err, "train_output", h.result)}, nil
	}
	m := h.step.task().model
	facts, factsErr := h.checkpointFacts(m)
	if factsErr != nil {
		return nil, factsErr
	}
	history := append([]any{}, h.history...)
	for _, row := range h.trainer.History() {
		history = append(history, logRow(row))
	}
	best := trace.Of("metric", nil, "step", nil, "checkpoint", nil)
	if b := h.watch.best; b.Metric != "" {
		best[0].Value = b.Value
		if h.args.saves {
			best[1].Value = b.GlobalStep
		}
		if b.Checkpoint != "" && h.args.saves {
			best[2].Value = filepath.Base(b.Checkpoint)
		}
	}
	optimizer := h.step.Optimizer()
	if !h.optimizer { // the recorded trainer makes it when the training begins
		optimizer = nil
	}
	final := slices.Concat(finalTensors(m.module(), optimizer), h.predicted, h.rms)
	if h.args.optimizer.name == "adafactor" {
		integerSteps(final)
	}
	return &Run{
		Trace: h.rec.trace(err, "log_history", history, "checkpoints", facts, "best", best,
			"train_output", h.result),
		final: final,
	}, nil
}

// checkpointFacts tells what the checkpoints hold.
func (h *hfRun) checkpointFacts(m model) (trace.Object, error) {
	names, err := h.checkpoints()
	if err != nil {
		return nil, err
	}
	hashes, states := trace.Object{}, trace.Object{}
	for _, name := range names {
		dir := filepath.Join(h.out, name)
		sha, err := fileSHA(filepath.Join(dir, "model.safetensors"), nn.Params(m.module()))
		if err != nil {
			return nil, err
		}
		state, err := readState(dir)
		if err != nil {
			return nil, err
		}
		h.args.keepIntervals(state)
		hashes = hashes.With(name, sha)
		states = states.With(name, map[string]any(state))
	}
	written := h.rec.written
	if written == nil {
		written = []string{}
	}
	return trace.Of("written", written, "after", names, "weights_sha256", hashes, "state", states), nil
}

// fileSHA is the hash of the named parameters inside a file.
func fileSHA(path string, params []torch.Named) (string, error) {
	f, err := safetensors.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	for _, p := range recorded.ByName(params) {
		raw, err := f.Read(p.Name)
		if err != nil {
			return "", err
		}
		h.Write(raw)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
