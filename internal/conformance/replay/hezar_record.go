package replay

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/compat/hezar"
	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/conformance/trace"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// hezarRecorder gathers what a run of Hezar's trainer does, by way of the methods that one can
// override.
type hezarRecorder struct {
	recorder

	err        error
	evaluation *hezarEvaluation // the last one
	model      hezarModel
	config     hezar.TrainerConfig
	evaluating bool
	seen       int // micro-batches at the last update
}

type hezarEvaluation struct {
	step             int
	samples, batches []any
	result           hezar.Logs
}

func (e *hezarEvaluation) object() trace.Object {
	o := trace.Of("global_step", e.step, "samples", e.samples, "batches", e.batches)
	if e.result != nil {
		o = o.With("result", logFields(e.result))
	}
	return o
}

// train begins the record of a phase.
func (r *hezarRecorder) train(m hezarModel, c hezar.TrainerConfig) {
	r.model, r.config, r.seen, r.evaluating = m, c, r.count("micro_losses"), false
}

func (r *hezarRecorder) event(t *hezarTrainer, name string) {
	r.add("events", []any{name, t.State.GlobalStep, t.State.Epoch, t.State.EpochStep})
}

func logFields(l hezar.Logs) (o trace.Object) {
	for _, v := range l {
		value := any(trace.Hex(v.Value))
		if whole, err := strconv.Atoi(v.String()); err == nil {
			value = whole
		}
		o = o.With(v.Name, value)
	}
	return o
}

// overrides record every method that Hezar's trainer has, and leave what it does as it is. The
// process dies before the batch behind stop, if that is not negative.
func (r *hezarRecorder) overrides(stop int) hezar.Overrides[row, hezarBatch] {
	type T = hezarTrainer
	return hezar.Overrides[row, hezarBatch]{
		CreateTrainDataloader: func(t *T) (*hezar.Dataloader[hezarBatch], error) {
			r.event(t, "create_train_dataloader")
			return t.CreateTrainDataloader()
		},
		CreateEvalDataloader: func(t *T, d data.Dataset[row]) (*hezar.Dataloader[hezarBatch], error) {
			r.event(t, "create_eval_dataloader")
			r.evaluation = &hezarEvaluation{step: t.State.GlobalStep}
			r.add("evaluations", r.evaluation)
			return t.CreateEvalDataloader(d)
		},
		PrepareInputBatch: func(t *T, b hezarBatch) (hezarBatch, error) {
			if r.evaluating {
				r.evaluation.samples = append(r.evaluation.samples, b.index)
			} else {
				if stop >= 0 && t.State.GlobalStep >= stop {
					return b, errKilled
				}
				r.add("batches", b.index)
			}
			r.event(t, "prepare_input_batch")
			return t.PrepareInputBatch(b)
		},
		Forward: func(t *T, b hezarBatch) (engine.Outputs, error) {
			r.event(t, "forward")
			return t.Forward(b)
		},
		ComputeLoss: func(t *T, o engine.Outputs, b hezarBatch) (torch.Tensor, error) {
			r.event(t, "compute_loss")
			loss, err := t.ComputeLoss(o, b)
			if err == nil && !r.evaluating {
				r.add("micro_losses_unscaled", trace.Hex(loss.Item()))
				divided := loss.Detach().DivScalar(float64(t.Config.GradientAccumulationSteps))
				r.add("micro_losses", trace.Hex(divided.Item()))
			}
			return loss, err
		},
		TrainingStep: func(t *T, b hezarBatch) (torch.Tensor, error) {
			r.event(t, "training_step")
			return t.TrainingStep(b)
		},
		OptimizationStep: func(t *T) error {
			r.event(t, "optimization_step")
			return t.OptimizationStep()
		},
		EvaluationStep: func(t *T, b hezarBatch) (hezar.EvalOutputs, error) {
			r.event(t, "evaluation_step")
			return t.EvaluationStep(b)
		},
		InnerTrainingLoop: func(t *T, ctx context.Context, epoch int) (float64, error) {
			r.event(t, "inner_training_loop")
			r.evaluating = false
			return t.InnerTrainingLoop(ctx, epoch)
		},
		Evaluate: func(t *T, ctx context.Context, d data.Dataset[row]) (hezar.Logs, error) {
			r.event(t, "evaluate")
			r.evaluating = true
			return evaluateHezar(t, ctx, d, r)
		},
		Log: func(t *T, logs hezar.Logs, step int) error {
			r.event(t, "log")
			r.add("log_history", append(trace.Of("step", step), logFields(logs)...))
			return t.Log(logs, step)
		},
		WriteToTensorboard: func(t *T, logs hezar.Logs, step int) error {
			for _, v := range logs {
				r.add("tensorboard", []any{v.Name, trace.Hex(v.Value), step})
			}
			return t.WriteToTensorboard(logs, step)
		},
		Save: func(t *T, path string) error {
			r.event(t, "save")
			r.written = append(r.written, path)
			return t.Save(path)
		},
		AfterUpdate: r.afterUpdate,
		AfterEvalBatch: func(_ *T, numbers hezar.Logs) {
			r.evaluation.batches = append(r.evaluation.batches, logFields(numbers))
		},
		AfterSchedule: func(t *T, metric *float64) error {
			args := []any{}
			if metric != nil {
				args = append(args, trace.Hex(*metric))
			}
			r.add("scheduler_steps", trace.Of("after_step", t.State.GlobalStep, "args", args,
				"lr", hexes(t.LearningRate())))
			return nil
		},
		AfterLoss: func(t *T, window float64) error {
			avg, sum, count := t.RunningLoss()
			r.add("loss_tracker", trace.Of("step", t.State.GlobalStep, "val", trace.Hex(window),
				"sum", trace.Hex(sum), "count", count, "avg", trace.Hex(avg)))
			return nil
		},
	}
}

// afterUpdate records an update.
func (r *hezarRecorder) afterUpdate(t *hezarTrainer) error {
	momentum, ok := t.Momentum()
	if !ok && t.Config.Optimizer != "sdg" {
		momentum = 0.9
	}
	o := trace.Of("update", r.count("updates")+1, "after_step", t.State.GlobalStep+1, "epoch", t.State.Epoch,
		"micro_in_window", r.count("micro_losses")-r.seen, "grad_norm", gradNorm(r.model.Model()),
		"lr", hexes(t.LearningRate()), "momentum", hexes(momentum), "skipped", false)
	r.add("updates", append(o, weightsOf(r.model.Model())...))
	r.seen = r.count("micro_losses")
	return nil
}

// finish puts the trace together. final says which tensors the case keeps whole.
func (r *hezarRun) finish(final any) (*Run, error) {
	rec := r.rec
	if r.trainer != nil {
		if err := r.trainer.Close(); err != nil {
			return nil, err
		}
	}
	outs := r.outputFolders()
	files, texts := trace.Object{}, trace.Object{}
	for _, out := range outs {
		list, err := listFiles(out)
		if err != nil {
			return nil, err
		}
		names := make([]string, len(list))
		for i, name := range list {
			names[i] = name
			if dir, base := filepath.Split(name); strings.HasPrefix(base, "events.out.tfevents.") {
				names[i] = dir + "events.out.tfevents.*"
			}
			if strings.HasSuffix(name, ".csv") || strings.HasSuffix(name, "trainer_state.yaml") {
				if err := readText(&texts, out+"/"+name); err != nil {
					return nil, err
				}
			}
		}
		slices.Sort(names)
		files = files.With(out, names)
	}
	folders, err := savedSteps(outs[0])
	if err != nil {
		return nil, err
	}
	if len(folders) > 0 {
		last := filepath.Join(outs[0], "checkpoints", folders[len(folders)-1])
		for _, name := range []string{"train/train_config.yaml", "model_config.yaml", "train/dataset_config.yaml"} {
			if _, err := os.Stat(filepath.Join(last, name)); err == nil {
				if err := readText(&texts, last+"/"+name); err != nil {
					return nil, err
				}
			}
		}
	}
	run := &Run{Trace: rec.trace(rec.err, "checkpoints", trace.Of("after", folders, "written", rec.written),
		"output_files", files, "text_files", texts)}
	r.addFinal(run, final)
	return run, nil
}

// outputFolders are the folders of all phases.
func (r *hezarRun) outputFolders() []string {
	var outs []string
	for _, p := range r.spec.Phases {
		outs = append(outs, r.spec.PhaseArgs(p).String("output_dir", "out"))
	}
	slices.Sort(outs)
	return slices.Compact(outs)
}

// listFiles lists the files below a folder, without the manifests of our checkpoints and hidden
// files.
func listFiles(root string) (names []string, err error) {
	err = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() || e.Name() == "MANIFEST.json" || strings.HasPrefix(e.Name(), ".") {
			return nil
		}
		name, err := filepath.Rel(root, path)
		names = append(names, name)
		return err
	})
	if os.IsNotExist(err) {
		return nil, nil
	}
	return names, err
}

// savedSteps are the checkpoints that are left.
func savedSteps(out string) ([]string, error) {
	names := []string{}
	entries, err := os.ReadDir(filepath.Join(out, "checkpoints"))
	if os.IsNotExist(err) {
		return names, nil
	}
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// readText adds the content of a file to the record, and the same parsed.
func readText(texts *trace.Object, path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text := string(raw)
	o := trace.Of("text", text)
	if !strings.HasSuffix(path, ".csv") {
		m, err := omegaconf.Unmarshal(raw)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		*texts = texts.With(path, o.With("yaml", hexed(m)))
		return nil
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	rows := []any{}
	for _, line := range lines[1:] {
		cells := []any{}
		for _, cell := range strings.Split(line, ",") {
			if n, err := strconv.Atoi(cell); err == nil {
				cells = append(cells, n)
			} else if f, err := strconv.ParseFloat(cell, 64); err == nil {
				cells = append(cells, trace.Hex(f))
			} else {
				return fmt.Errorf("%s: the cell %q is no number", path, cell)
			}
		}
		rows = append(rows, cells)
	}
	*texts = texts.With(path, o.With("header", strings.Split(lines[0], ","), "rows", rows))
	return nil
}

// addFinal adds the tensors of the end: whole, or what can be said of them in few numbers.
func (r *hezarRun) addFinal(run *Run, final any) {
	if r.model == nil {
		return
	}
	module := r.model.Model()
	run.Trace = run.Trace.With("final", weightsOf(module))
	var o optim.Optimizer
	if r.trainer != nil {
		o = r.trainer.Optimizer()
	}
	all := finalTensors(module, o)
	weights, states := split(all)
	switch final := final.(type) {
	case nil:
		run.final = all
	case string:
		run.final = all
		if final == "weights" {
			run.final = weights
			run.Trace = run.Trace.With("optimizer_stats", statsOf(states))
		}
	case []any:
		const small = 2000
		for _, t := range weights {
			n := int64(1)
			for _, d := range t.shape {
				n *= d
			}
			if n <= small || slices.Contains(final, any(t.name)) {
				run.final = append(run.final, t)
			}
		}
		run.Trace = run.Trace.With("weight_stats", statsOf(weights), "optimizer_stats", statsOf(states))
	}
}

func split(all []tensorBytes) (weights, states []tensorBytes) {
	for _, t := range all {
		if strings.HasPrefix(t.name, "optim.") {
			states = append(states, t)
		} else {
			weights = append(weights, t)
		}
	}
	return weights, states
}

// statsOf are the stats of copies.
func statsOf(list []tensorBytes) (o trace.Object) {
	torch.Scope(func() {
		var tensors []torch.Named
		for _, t := range list {
			tensors = append(tensors, t.tensor())
		}
		o = tensorStats(tensors...)
	})
	return o
}
