package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/compat/hezar"
	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/conformance/recorded"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/internal/conformance/trace"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

type (
	hezarTrainer = hezar.Trainer[row, hezarBatch]
	hezarModel   = hezar.Model[row, hezarBatch]
)

// hezarRun replays a case of Hezar's trainer: its phases run one after the other in the same
// folder, each with its own model and trainer.
type hezarRun struct {
	*session

	trainer    *hezarTrainer // of the last phase; nil if it was refused
	model      hezarModel
	state      hezar.TrainerState // at the end of the last phase whose configuration was accepted
	err        error              // the last refusal
	last       trace.Object       // the last evaluation
	evaluating bool
	seen       int // micro-batches at the last update
}

func replayHezar(ctx context.Context, c *session) *Run {
	s := c.spec
	final := s.More.Any("final")
	size := s.Data.Options.FloatOrNil("max_size")
	noMore(s)
	if s.Init.Seed != nil || s.HasMetrics || s.Data.Iterable || s.Data.Trim || len(s.Data.EvalSets) > 0 {
		spec.Refusef("with the trainer hezar: init by seed, metrics outside of args, data.iterable, trim and eval_sets")
	}
	if train := c.sets["train"]; train != nil && size != nil {
		train.n = hezarLength(train.n, *size, s.Data.Options.Any("max_size"))
	}
	r := &hezarRun{session: c}
	for _, phase := range s.Phases {
		r.do(ctx, phase)
	}
	return r.finish(final)
}

// hezarLength returns the length of a data set of n rows with max_size. If that is written as a
// fraction, it is a share of the rows, rounded up.
func hezarLength(n int, size float64, written any) int {
	whole := !strings.ContainsAny(fmt.Sprint(written), ".eE")
	switch {
	case !whole && size > 0 && size <= 1:
		return int(math.Ceil(size * float64(n)))
	case whole && size > 0:
		return min(n, int(size))
	}
	return n
}

// do runs one phase. If the trainer refuses it, that is recorded.
func (r *hezarRun) do(ctx context.Context, p spec.Phase) {
	stop := p.Options.Int("stop_after_step", -1)
	if p.StopAfterUpdate != nil || p.SameTrainer || p.Do == "predict" {
		spec.Refusef("stop_after_update, same_trainer and predict with the trainer hezar")
	}
	spec.Check(p.Options.Done())
	info := trace.Of("do", p.Do)
	if p.Do == "evaluate" {
		if r.trainer == nil {
			spec.Failf("the phase evaluate has no trainer of a phase before it")
		}
		spec.Must(r.evaluate(r.trainer, ctx, nil))
	} else {
		r.train(ctx, p, stop, info)
	}
	r.phase(info)
}

// train trains; what is recorded about the phase is added to info.
func (r *hezarRun) train(ctx context.Context, p spec.Phase, stop int, info trace.Object) {
	r.model = newHezarModel(r.spec)
	config := r.config(p)
	ended := func(err error) {
		info["error"] = textOrNil(err)
		r.err = cmp.Or(err, r.err)
	}
	if r.trainer != nil {
		_ = r.trainer.Close()
	}
	dataset := omegaconf.Map{{Key: "name", Value: "conformance_rows"}, {Key: "config_type", Value: "dataset"},
		{Key: "path", Value: "conformance"}, {Key: "task", Value: config.Task},
		{Key: "hf_load_kwargs", Value: omegaconf.Map{}}, {Key: "kind", Value: r.spec.Data.Kind}}
	if size := recorded.Config(r.spec.Data.Options.Any("max_size")); size != nil {
		dataset.Set("max_size", size)
	}
	o := hezar.Options[row, hezarBatch]{Rules: hezar.Exact, RunName: "Jan01_00-00-00_host", Output: io.Discard,
		Overrides: r.overrides(stop), DatasetConfig: dataset}
	o.EvalDataset = cmp.Or(r.sets["eval"], &rows{}) // without rows, Hezar has an empty set
	r.seen, r.evaluating = r.count("micro_losses"), false
	t, err := hezar.New[row, hezarBatch](config, r.model, data.Dataset[row](r.sets["train"]), o)
	field := ""
	if setting := new(hezar.SettingError); errors.As(err, &setting) {
		field = setting.Field
	}
	if field == "GradientAccumulationSteps" { // Hezar's configuration divides by it
		r.trainer = nil
		ended(err)
		return
	}
	if slices.Contains(hezar.Tasks, config.Task) {
		info["metric_for_best_model"] = resolvedMetric(config)
		r.trainer = t
		if err != nil {
			r.state = hezarStart(config)
		}
	}
	if err != nil {
		ended(err)
		if field != "NumEpochs" && field != "BatchSize" { // Hezar divides by these before it makes a state
			info["state_at_end"] = hexed(r.state.Map())
		}
		return
	}
	addStart(info, t)
	info["weights_at_start"] = weightsOf(r.model.Model())
	err = t.Train(ctx)
	if errors.Is(err, errKilled) {
		info["stopped"] = true
		err = nil
	}
	ended(err)
	r.state = t.State
	info["state_at_end"] = hexed(r.state.Map())
}

// config makes the configuration of a phase from a file, as a user of Hezar would.
func (r *hezarRun) config(p spec.Phase) hezar.TrainerConfig {
	args := r.spec.PhaseArgs(p)
	m := omegaconf.Map{{Key: "config_type", Value: "trainer"}}
	for _, name := range args.Names() {
		if value := recorded.Config(args.Any(name)); value != nil {
			m.Set(name, value)
		}
	}
	for key, value := range map[string]any{"output_dir": "out", "use_cpu": true} {
		if _, ok := m.Get(key); !ok {
			m.Set(key, value)
		}
	}
	if p.ResumeNewest {
		m.Set("resume_from_checkpoint", true)
	} else if p.Resume != "" {
		m.Set("resume_from_checkpoint", p.Resume)
	}
	var factor func(int) float64
	if kwargs, ok := m.Get("lr_scheduler_kwargs"); ok {
		if text, ok := kwargs.(omegaconf.Map).Get("lr_lambda"); ok {
			factor = parseFactor(fmt.Sprint(text), nil)
			m = slices.DeleteFunc(m, func(i omegaconf.Item) bool { return i.Key == "lr_scheduler_kwargs" })
		}
	}
	dir := spec.Must(os.MkdirTemp("", "config-"))
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "train_config.yaml")
	spec.Check(os.WriteFile(path, spec.Must(omegaconf.Marshal(m)), 0o666))
	c, err := hezar.LoadTrainerConfig(path)
	if err != nil {
		spec.Refusef("args: %v", err)
	}
	c.LRLambda = factor
	return c
}

// resolvedMetric returns metric_for_best_model with its prefix.
func resolvedMetric(c hezar.TrainerConfig) string {
	metric, set := cmp.Or(c.MetricForBestModel, "loss"), "evaluation."
	if c.DoEvaluate != nil && !*c.DoEvaluate {
		set = "train."
	}
	if strings.HasPrefix(metric, "evaluation") || strings.HasPrefix(metric, "train") {
		return metric
	}
	return set + metric
}

// hezarStart returns the state of a trainer that was refused: Hezar makes the state before it
// checks the other settings.
func hezarStart(c hezar.TrainerConfig) hezar.TrainerState {
	if c.ResumeFromCheckpoint != "" {
		if s, err := hezar.LoadTrainerState(filepath.Join(c.OutputDir, cmp.Or(c.CheckpointsDir, "checkpoints"),
			"trainer_state.yaml")); err == nil {
			if s.EpochStep == 0 {
				s.Epoch++
			}
			return s
		}
	}
	return hezar.TrainerState{Epoch: 1, TotalEpochs: max(1, c.NumEpochs),
		MetricForBestCheckpoint: resolvedMetric(c), LogsDir: filepath.Join(c.OutputDir,
			cmp.Or(c.LogsDir, "logs"), "Jan01_00-00-00_host")}
}

// addStart adds what a trainer has computed before its first batch.
func addStart(info trace.Object, t *hezarTrainer) {
	_, sum, count := t.RunningLoss()
	avg := t.State.LossTrackerAvg
	c := t.Config.Map()
	setting := func(key string) any { v, _ := c.Get(key); return v }
	info.With("num_batches", t.NumBatches, "total_steps", t.TotalSteps, "steps_in_epoch", t.StepsInEpoch,
		"max_steps", setting("max_steps"), "save_steps", setting("save_steps"), "log_steps", setting("log_steps"),
		"saves_in_epoch", t.SavesInEpoch, "lr_scheduling_steps", t.LRSchedulingSteps(),
		"lr_scheduler_type", setting("lr_scheduler"), "objective", t.Objective(),
		"state_at_start", hexed(t.State.Map()),
		"loss_tracker_at_start", trace.Of("avg", zeroOrHex(avg), "sum", zeroOrHex(sum),
			"count", count))
}

// zeroOrHex converts a number of an AverageMeter, in which zero is an integer.
func zeroOrHex(v float64) any {
	if v == 0 {
		return 0
	}
	return trace.Hex(v)
}

// hexed converts the values of a file to those of a trace: floats to hex, keys to strings.
func hexed(v any) any {
	switch v := v.(type) {
	case float64:
		return trace.Hex(v)
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = hexed(item)
		}
		return out
	case omegaconf.Map:
		o := trace.Object{}
		for _, item := range v {
			o[fmt.Sprint(item.Key)] = hexed(item.Value)
		}
		return o
	}
	return v
}

var _ engine.Task[row, hezarBatch] = (*hezarVectors)(nil)
