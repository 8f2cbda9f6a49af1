package replay

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	pa "github.com/gotrainer/gotrainer/compat/pytorchaccelerated"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/internal/conformance/trace"
)

// makeCallbacks makes the callbacks of the case.
func (p *paCase) makeCallbacks() (list []any) {
	for _, callback := range p.spec.Callbacks {
		o := callback.Options.Merge()
		o.Any("kind")
		made, ok := map[string]any{
			"probe_a": &paProbeA{p.probe("a:")}, "probe_b": &paProbeB{p.probe("b:")}, "ema": &pa.ModelEMA{},
			"save_best": &pa.SaveBestModel{}, "early_stopping": &pa.EarlyStopping{},
			"limit_batches": &pa.LimitBatches{}, "limit_eval_steps": &pa.LimitEvalSteps{},
			"step_evaluation": &pa.StepBasedEvaluation{}, "save_training_state": &pa.SaveTrainingState{},
			"wsd_checkpoint": &pa.WSDCheckpoint{}, "terminate_on_nan": nil, // among the default callbacks
		}[callback.Kind]
		if !ok {
			spec.Refusef("the callback %q with the trainer pytorch_accelerated", callback.Kind)
		}
		if made != nil {
			o.Fill(made, "reset_on_train:!KeepOnTrain", "save_optimizer:!NoOptimizer", "save_scheduler:!NoScheduler",
				"load_saved_checkpoint:!NoLoadAtEnd", "early_stopping_patience:Patience",
				"early_stopping_threshold:Threshold", "evaluate_during_training:!NoEvaluation",
				"limit_intermediate_only:!AlsoEpochs", "save_at_end:!NotAtEnd")
			list = append(list, made)
		}
		spec.Check(o.Done())
	}
	return list
}

// describe adds what is recorded at the end of a phase.
func (p *paCase) describe(info trace.Object) {
	t, h := p.trainer, p.trainer.History()
	info.With("run_config", spec.Must(trace.Parse(spec.Must(json.Marshal(t.Config())))),
		"run_history", historyValues(h), "current_epoch_at_end", h.CurrentEpoch())
	if t.Schedule() != nil {
		info["scheduler_state"] = trace.Of("text", t.ScheduleSteps())
	}
	best := trace.Object{}
	for _, c := range p.callbacks {
		switch c := c.(type) {
		case *pa.SaveBestModel:
			best["SaveBestModelCallback"] = bestEpoch(c.Best())
		case *pa.ModelEMA:
			best["ModelEmaCallback"] = bestEpoch(c.Best())
			if c.Average() != nil {
				info["ema_stats"] = tensorStats(c.Average()...)
			}
		case *pa.EarlyStopping:
			value, ok := c.Best()
			info["early_stopping"] = trace.Of("counter", c.Counter(), "best_metric", orNil(trace.Hex(value), ok))
		}
	}
	if len(best) > 0 {
		info["best"] = best
	}
}

func bestEpoch(value float64, epoch int, ok bool) trace.Object {
	return trace.Of("best_metric", orNil(trace.Hex(value), ok), "best_metric_epoch", orNil(epoch, ok))
}

func historyValues(h pa.RunHistory) trace.Object {
	values := trace.Object{}
	for _, name := range h.MetricNames() {
		values[name] = hexes(h.MetricValues(name)...)
	}
	return values
}

// pythonNames returns the names that Accelerate in Python gives to the files of a training state.
// There, custom_checkpoint_0 is the schedule; the last of package accelerate's corresponds to what
// the Trainer in Python saves itself.
func pythonNames(files []string) []string {
	own, most := -1, -1
	for i, f := range files {
		number, custom := strings.CutPrefix(strings.TrimSuffix(f, filepath.Ext(f)), "custom_checkpoint_")
		if n, err := strconv.Atoi(number); custom && err == nil && n > most {
			own, most = i, n
		}
	}
	var names []string
	for i, f := range files {
		switch {
		case f == "MANIFEST.json":
			continue
		case i == own:
			f = "trainer_metadata.pt"
		case f == "optimizer.safetensors":
			f = "optimizer.bin"
		case f == "random_states_0.safetensors":
			f = "random_states_0.pkl"
		case strings.HasSuffix(f, ".state"):
			f = strings.TrimSuffix(f, ".state") + ".pkl"
		}
		names = append(names, f)
	}
	slices.Sort(names)
	return names
}

// files lists the files below a folder under their names in Python.
func (p *paCase) files(root string) []string {
	byFolder := map[string][]string{}
	for _, name := range filesBelow(root) {
		byFolder[filepath.Dir(name)] = append(byFolder[filepath.Dir(name)], filepath.Base(name))
	}
	all := []string{}
	for folder, files := range byFolder {
		for _, name := range pythonNames(files) {
			all = append(all, filepath.Join(folder, name))
		}
	}
	slices.Sort(all)
	return all
}
