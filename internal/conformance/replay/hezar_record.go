package replay

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/compat/hezar"
	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/conformance/trace"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// hezarRecorder gathers what a run of Hezar's trainer does, by way of the methods that one can
// override.
type hezarRecorder struct {
	phases, batches, micro, unscaled, updates, logs, events, losses, moves, tensorboard []any

	evaluations []*hezarEvaluation
	written     []string
	err         error

	model      hezarModel
	config     hezar.TrainerConfig
	evaluating bool
	seen       int // micro-batches at the last update
}

type hezarEvaluation struct {
	step    int
	samples []any
	batches []any
	result  hezar.Logs
}

// train begins the record of a phase.
func (r *hezarRecorder) train(m hezarModel, c hezar.TrainerConfig) {
	r.model, r.config, r.seen, r.evaluating = m, c, len(r.micro), false
}

type hezarMark [6]int

func (r *hezarRecorder) mark() hezarMark {
	return hezarMark{len(r.batches), len(r.updates), len(r.events), len(r.evaluations), len(r.logs), len(r.tensorboard)}
}

func (r *hezarRecorder) since(m hezarMark) (o trace.Object) {
	now := r.mark()
	for i, name := range []string{"batches", "updates", "events", "evaluations", "log_history", "tensorboard"} {
		o = append(o, trace.Pair{Name: name, Value: now[i] - m[i]})
	}
	return o
}

func (r *hezarRecorder) event(t *hezarTrainer, name string) {
	r.events = append(r.events, []any{name, t.State.GlobalStep, t.State.Epoch, t.State.EpochStep})
}

func logFields(l hezar.Logs) (o trace.Object) {
	for _, v := range l {
		value := any(trace.Hex(v.Value))
		if whole, err := strconv.Atoi(v.String()); err == nil {
			value = whole
		}
		o = append(o, trace.Pair{Name: v.Name, Value: value})
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
			r.evaluations = append(r.evaluations, &hezarEvaluation{step: t.State.GlobalStep})
			return t.CreateEvalDataloader(d)
		},
		PrepareInputBatch: func(t *T, b hezarBatch) (hezarBatch, error) {
			if r.evaluating {
				e := r.evaluations[len(r.evaluations)-1]
				e.samples = append(e.samples, b.index)
			} else {
				if stop >= 0 && t.State.GlobalStep >= stop {
					return b, errKilled
				}
				r.batches = append(r.batches, b.index)
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
				r.unscaled = append(r.unscaled, trace.Hex(loss.Item()))
				r.micro = append(r.micro,
					trace.Hex(loss.Detach().DivScalar(float64(t.Config.GradientAccumulationSteps)).Item()))
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
			r.logs = append(r.logs, append(trace.Object{{Name: "step", Value: step}}, logFields(logs)...))
			return t.Log(logs, step)
		},
		WriteToTensorboard: func(t *T, logs hezar.Logs, step int) error {
			for _, v := range logs {
				r.tensorboard = append(r.tensorboard, []any{v.Name, trace.Hex(v.Value), step})
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
			e := r.evaluations[len(r.evaluations)-1]
			e.batches = append(e.batches, logFields(numbers))
		},
		AfterSchedule: func(t *T, metric *float64) error {
			args := []any{}
			if metric != nil {
				args = append(args, trace.Hex(*metric))
			}
			r.moves = append(r.moves, trace.Object{{Name: "after_step", Value: t.State.GlobalStep},
				{Name: "args", Value: args}, {Name: "lr", Value: hexes([]float64{t.LearningRate()})}})
			return nil
		},
		AfterLoss: func(t *T, window float64) error {
			avg, sum, count := t.RunningLoss()
			r.losses = append(r.losses, trace.Object{{Name: "step", Value: t.State.GlobalStep},
				{Name: "val", Value: trace.Hex(window)}, {Name: "sum", Value: trace.Hex(sum)},
				{Name: "count", Value: count}, {Name: "avg", Value: trace.Hex(avg)}})
			return nil
		},
	}
}

// afterUpdate records an update.
func (r *hezarRecorder) afterUpdate(t *hezarTrainer) error {
	momentum := []float64{}
	if m, ok := t.Momentum(); ok {
		momentum = append(momentum, m)
	} else if t.Config.Optimizer == "sdg" {
		momentum = append(momentum, 0)
	} else {
		momentum = append(momentum, 0.9)
	}
	var norm *float64
	var norms []torch.Tensor
	params := nn.Params(r.model.Model())
	torch.NoGrad(func() {
		torch.Scope(func() {
			for _, p := range params {
				if g := p.Tensor.Grad(); g.Defined() {
					norms = append(norms, g.Detach().Norm(2))
				}
			}
			if len(norms) > 0 {
				norm = new(torch.Stack(norms, 0).Norm(2).Item())
			}
		})
	})
	r.updates = append(r.updates, trace.Object{{Name: "update", Value: len(r.updates) + 1},
		{Name: "after_step", Value: t.State.GlobalStep + 1}, {Name: "epoch", Value: t.State.Epoch},
		{Name: "micro_in_window", Value: len(r.micro) - r.seen}, {Name: "grad_norm", Value: hexOrNil(norm)},
		{Name: "lr", Value: hexes([]float64{t.LearningRate()})},
		{Name: "momentum", Value: hexes(momentum)}, {Name: "skipped", Value: false}, {Name: "weights_norm",
			Value: normOf(r.model.Model())}, {Name: "weights_sha256", Value: weightsSHA(params)}})
	r.seen = len(r.micro)
	return nil
}

// finish puts the trace together. final says which tensors the case keeps whole.
func (r *hezarRun) finish(final any) (*Run, error) {
	rec := &r.rec
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
		files = append(files, trace.Pair{Name: out, Value: names})
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
	refused := any(nil)
	if rec.err != nil {
		refused = trace.Object{{Name: "text", Value: rec.err.Error()}}
	}
	list := func(v []any) []any { return append([]any{}, v...) }
	run := &Run{Trace: trace.Object{{Name: "env", Value: environment()}, {Name: "batches", Value: list(rec.batches)},
		{Name: "micro_losses", Value: list(rec.micro)},
		{Name: "micro_losses_unscaled", Value: list(rec.unscaled)}, {Name: "updates", Value: list(rec.updates)},
		{Name: "log_history", Value: list(rec.logs)}, {Name: "events", Value: list(rec.events)},
		{Name: "evaluations", Value: rec.evaluationList()}, {Name: "loss_tracker", Value: list(rec.losses)},
		{Name: "scheduler_steps", Value: list(rec.moves)},
		{Name: "tensorboard", Value: list(rec.tensorboard)},
		{Name: "checkpoints", Value: trace.Object{{Name: "after", Value: folders},
			{Name: "written", Value: rec.written}}},
		{Name: "phases", Value: list(rec.phases)}, {Name: "error", Value: refused}, {Name: "output_files",
			Value: files}, {Name: "text_files", Value: texts}}}
	r.addFinal(run, final)
	return run, nil
}

func (r *hezarRecorder) evaluationList() []any {
	out := []any{}
	for _, e := range r.evaluations {
		o := trace.Object{{Name: "global_step", Value: e.step}, {Name: "samples", Value: append([]any{}, e.samples...)},
			{Name: "batches", Value: append([]any{}, e.batches...)}}
		if e.result != nil {
			o = append(o, trace.Pair{Name: "result", Value: logFields(e.result)})
		}
		out = append(out, o)
	}
	return out
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
	o := trace.Object{{Name: "text", Value: text}}
	if !strings.HasSuffix(path, ".csv") {
		m, err := omegaconf.Unmarshal(raw)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		*texts = append(*texts, trace.Pair{Name: path, Value: append(o, trace.Pair{Name: "yaml", Value: hexed(m)})})
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
	*texts = append(*texts, trace.Pair{Name: path,
		Value: append(o, trace.Pair{Name: "header", Value: strings.Split(lines[0], ",")}, trace.Pair{Name: "rows",
			Value: rows})})
	return nil
}

// addFinal adds the tensors of the end: whole, or what can be said of them in few numbers.
func (r *hezarRun) addFinal(run *Run, final any) {
	if r.model == nil {
		return
	}
	module := r.model.Model()
	run.Trace = append(run.Trace, trace.Pair{Name: "final",
		Value: trace.Object{{Name: "weights_norm", Value: normOf(module)}, {Name: "weights_sha256",
			Value: weightsSHA(nn.Params(module))}}})
	var o optim.Optimizer
	if r.trainer != nil {
		o = r.trainer.Optimizer()
	}
	all := finalTensors(bare{module}, o)
	weights, states := split(all)
	switch final := final.(type) {
	case nil:
		run.final = all
	case string:
		run.final = all
		if final == "weights" {
			run.final = weights
			run.Trace = append(run.Trace, trace.Pair{Name: "optimizer_stats", Value: hezarStats(states)})
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
		run.Trace = append(run.Trace, trace.Pair{Name: "weight_stats", Value: hezarStats(weights)},
			trace.Pair{Name: "optimizer_stats", Value: hezarStats(states)})
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

// hezarStats says of tensors what the recordings do: shape, hash, sum of absolute values, 2-norm.
func hezarStats(list []tensorBytes) trace.Object {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b tensorBytes) int { return strings.Compare(a.name, b.name) })
	out := trace.Object{}
	for _, t := range list {
		var sum, norm float64
		torch.Scope(func() {
			v := torch.FromBytes(t.raw, t.dtype, t.shape...).ToDType(torch.Float64)
			sum, norm = v.Abs().Sum(torch.DefaultDType).Item(), v.Norm(2).Item()
		})
		hash := sha256.Sum256(t.raw)
		shape := make([]int, len(t.shape))
		for i, d := range t.shape {
			shape[i] = int(d)
		}
		out = append(out, trace.Pair{Name: t.name, Value: trace.Object{{Name: "shape", Value: shape},
			{Name: "dtype", Value: strings.ToLower(t.dtype.String())},
			{Name: "weights_sha256", Value: hex.EncodeToString(hash[:])}, {Name: "abs_sum", Value: trace.Hex(sum)},
			{Name: "l2", Value: trace.Hex(math.Abs(norm))}}})
	}
	return out
}
