package replay

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/compat/hezar"
	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/internal/conformance/trace"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

func (r *hezarRun) event(t *hezarTrainer, name string) {
	r.add("events", []any{name, t.State.GlobalStep, t.State.Epoch, t.State.EpochStep})
}

func logFields(l hezar.Logs) trace.Object {
	o := trace.Object{}
	for _, v := range l {
		value := any(trace.Hex(v.Value))
		if whole, err := strconv.Atoi(v.String()); err == nil {
			value = whole
		}
		o[v.Name] = value
	}
	return o
}

// overrides record the calls of all methods of Hezar's trainer, without changing what they do. The
// process ends before the batch after stop, if that is not negative.
func (r *hezarRun) overrides(stop int) hezar.Overrides[row, hezarBatch] {
	type T = hezarTrainer
	return hezar.Overrides[row, hezarBatch]{
		CreateTrainDataloader: func(t *T) (*hezar.Dataloader[hezarBatch], error) {
			r.event(t, "create_train_dataloader")
			return t.CreateTrainDataloader()
		},
		CreateEvalDataloader: func(t *T, d data.Dataset[row]) (*hezar.Dataloader[hezarBatch], error) {
			r.event(t, "create_eval_dataloader")
			r.last = trace.Object{"global_step": t.State.GlobalStep, "samples": []any{}, "batches": []any{}}
			r.add("evaluations", r.last)
			return t.CreateEvalDataloader(d)
		},
		PrepareInputBatch: func(t *T, b hezarBatch) (hezarBatch, error) {
			if r.evaluating {
				grow(r.last, "samples", b.index)
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
		Evaluate: r.evaluate,
		Log: func(t *T, logs hezar.Logs, step int) error {
			r.event(t, "log")
			r.add("log_history", logFields(logs).With("step", step))
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
			grow(r.last, "batches", logFields(numbers))
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

// evaluate records an evaluation and its result.
func (r *hezarRun) evaluate(t *hezarTrainer, ctx context.Context, d data.Dataset[row]) (hezar.Logs, error) {
	r.event(t, "evaluate")
	r.evaluating = true
	logs, err := t.Evaluate(ctx, d)
	if err == nil && logs != nil && r.last != nil {
		r.last["result"] = logFields(logs)
	}
	return logs, err
}

func (r *hezarRun) afterUpdate(t *hezarTrainer) error {
	momentum, ok := t.Momentum()
	if !ok && t.Config.Optimizer != "sdg" {
		momentum = 0.9
	}
	r.add("updates", weightsOf(r.model.Model()).With("update", r.count("updates")+1,
		"after_step", t.State.GlobalStep+1, "epoch", t.State.Epoch, "micro_in_window", r.count("micro_losses")-r.seen,
		"grad_norm", gradNorm(r.model.Model()), "lr", hexes(t.LearningRate()), "momentum", hexes(momentum),
		"skipped", false))
	r.seen = r.count("micro_losses")
	return nil
}

// finish assembles the trace. final says which tensors the case stores in full.
func (r *hezarRun) finish(final any) *Run {
	if r.trainer != nil {
		spec.Check(r.trainer.Close())
	}
	var outs []string // the output folders of all phases
	for _, p := range r.spec.Phases {
		outs = append(outs, r.spec.PhaseArgs(p).String("output_dir", "out"))
	}
	slices.Sort(outs)
	files, texts := trace.Object{}, trace.Object{}
	for _, out := range slices.Compact(outs) {
		names := slices.DeleteFunc(filesBelow(out), func(name string) bool { // our manifests, hidden files
			return filepath.Base(name) == "MANIFEST.json" || strings.HasPrefix(filepath.Base(name), ".")
		})
		for i, name := range names {
			if dir, base := filepath.Split(name); strings.HasPrefix(base, "events.out.tfevents.") {
				names[i] = dir + "events.out.tfevents.*"
			}
			if strings.HasSuffix(name, ".csv") || strings.HasSuffix(name, "trainer_state.yaml") {
				readText(texts, out+"/"+name)
			}
		}
		slices.Sort(names)
		files[out] = names
	}
	folders := []string{}
	checkpoints := os.DirFS(filepath.Join(outs[0], "checkpoints"))
	for _, name := range spec.Must(fs.Glob(checkpoints, "[^.]*")) {
		if info, err := fs.Stat(checkpoints, name); err == nil && info.IsDir() {
			folders = append(folders, name)
		}
	}
	if len(folders) > 0 {
		last := filepath.Join(outs[0], "checkpoints", folders[len(folders)-1])
		for _, name := range []string{"train/train_config.yaml", "model_config.yaml", "train/dataset_config.yaml"} {
			if _, err := os.Stat(filepath.Join(last, name)); err == nil {
				readText(texts, last+"/"+name)
			}
		}
	}
	run := &Run{Trace: r.trace(r.err, "checkpoints", trace.Of("after", folders, "written", r.written),
		"output_files", files, "text_files", texts)}
	r.addFinal(run, final)
	return run
}

// readText records the text of a file and its parsed content.
func readText(texts trace.Object, path string) {
	raw := spec.Must(os.ReadFile(path))
	o := trace.Of("text", string(raw))
	if !strings.HasSuffix(path, ".csv") {
		texts[path] = o.With("yaml", hexed(spec.Must(omegaconf.Unmarshal(raw))))
		return
	}
	lines := strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")
	rows := []any{}
	for _, line := range lines[1:] {
		cells := []any{}
		for _, cell := range strings.Split(line, ",") {
			if n, err := strconv.Atoi(cell); err == nil {
				cells = append(cells, n)
			} else {
				cells = append(cells, trace.Hex(spec.Must(strconv.ParseFloat(cell, 64))))
			}
		}
		rows = append(rows, cells)
	}
	texts[path] = o.With("header", strings.Split(lines[0], ","), "rows", rows)
}

// addFinal adds the final tensors, either in full or as statistics.
func (r *hezarRun) addFinal(run *Run, final any) {
	if r.model == nil {
		return
	}
	module := &model{module: r.model.Model()}
	run.Trace["final"] = weightsOf(module.module)
	weights := finalTensors(module, nil)
	var states []torch.Named
	if r.trainer != nil {
		states = finalTensors(nil, r.trainer.Optimizer())
	}
	run.final = weights
	switch whole, some := final.([]any); {
	case some:
		const small = 2000
		run.final = slices.DeleteFunc(slices.Clone(weights), func(t torch.Named) bool {
			return t.Tensor.Numel() > small && !slices.Contains(whole, any(t.Name))
		})
		run.Trace["weight_stats"] = tensorStats(weights...)
	case final != "weights":
		run.final = append(weights, states...)
		return
	}
	run.Trace["optimizer_stats"] = tensorStats(states...)
}
