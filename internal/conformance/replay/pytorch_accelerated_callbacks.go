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

// paCallbacks are the callbacks of a case, and those of them that are asked at the end of a phase.
type paCallbacks struct {
	list     []any
	saveBest *pa.SaveBestModel
	ema      *pa.ModelEMA
	stopping *pa.EarlyStopping
}

func (p *paCase) callbacks() (c paCallbacks) {
	for _, callback := range p.spec.Callbacks {
		o := callback.Options.Merge()
		o.Any("kind")
		var made any
		switch callback.Kind {
		case "probe_a":
			made = &paProbeA{p.probe("a:")}
		case "probe_b":
			made = &paProbeB{p.probe("b:")}
		case "save_best":
			c.saveBest = &pa.SaveBestModel{}
			made = c.saveBest
		case "early_stopping":
			c.stopping = &pa.EarlyStopping{}
			made = c.stopping
		case "limit_batches":
			made = &pa.LimitBatches{}
		case "ema":
			c.ema = &pa.ModelEMA{}
			made = c.ema
		case "step_evaluation":
			made = &pa.StepBasedEvaluation{}
		case "limit_eval_steps":
			made = &pa.LimitEvalSteps{}
		case "save_training_state":
			made = &pa.SaveTrainingState{}
		case "wsd_checkpoint":
			made = &pa.WSDCheckpoint{}
		case "terminate_on_nan": // it is one of the defaults
		default:
			spec.Refusef("the callback %q with the trainer pytorch_accelerated", callback.Kind)
		}
		if made != nil {
			o.Fill(made, "reset_on_train:!KeepOnTrain", "save_optimizer:!NoOptimizer", "save_scheduler:!NoScheduler",
				"load_saved_checkpoint:!NoLoadAtEnd", "early_stopping_patience:Patience",
				"early_stopping_threshold:Threshold", "evaluate_during_training:!NoEvaluation",
				"limit_intermediate_only:!AlsoEpochs", "save_at_end:!NotAtEnd")
			c.list = append(c.list, made)
		}
		spec.Check(o.Done())
	}
	return c
}

// describe is what the recording says at the end of a phase.
func (p *paCase) describe() trace.Object {
	t, h := p.trainer, p.trainer.History()
	o := trace.Of("run_config", spec.Must(trace.Parse(spec.Must(json.Marshal(t.Config())))),
		"run_history", historyValues(h), "current_epoch_at_end", h.CurrentEpoch())
	if t.Schedule() != nil {
		o = o.With("scheduler_state", trace.Of("text", t.ScheduleSteps()))
	}
	best := trace.Object{}
	add := func(name string, value float64, epoch int, ok bool) {
		entry := trace.Of("best_metric", nil, "best_metric_epoch", nil)
		if ok {
			entry = trace.Of("best_metric", trace.Hex(value), "best_metric_epoch", epoch)
		}
		best = best.With(name, entry)
	}
	if c := p.setup.saveBest; c != nil {
		value, epoch, ok := c.Best()
		add("SaveBestModelCallback", value, epoch, ok)
	}
	if c := p.setup.ema; c != nil {
		value, epoch, ok := c.Best()
		add("ModelEmaCallback", value, epoch, ok)
		if c.Average() != nil {
			o = o.With("ema_stats", tensorStats(c.Average()...))
		}
	}
	if len(best) > 0 {
		o = o.With("best", best)
	}
	if c := p.setup.stopping; c != nil {
		metric := any(nil)
		if value, ok := c.Best(); ok {
			metric = trace.Hex(value)
		}
		o = o.With("early_stopping", trace.Of("counter", c.Counter(), "best_metric", metric))
	}
	return o
}

func historyValues(h pa.RunHistory) trace.Object {
	o := trace.Object{}
	for _, name := range slices.Sorted(slices.Values(h.MetricNames())) {
		o = o.With(name, hexes(h.MetricValues(name)...))
	}
	return o
}

// pythonNames are the names that Accelerate gives in Python to the files of a training state. What
// it saves as custom_checkpoint_0 is the schedule; the last of ours is what the Trainer in Python
// saves by itself.
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

// files lists the files in a folder and below it, as Python names them.
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
