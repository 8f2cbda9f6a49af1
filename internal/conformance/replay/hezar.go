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

// hezarRun replays a case of Hezar's trainer: its phases one after the other in one folder, each
// with a model and a trainer of its own.
type hezarRun struct {
	spec *spec.Spec
	rec  *hezarRecorder

	trainer *hezarTrainer // of the last phase, nil if it was refused
	model   hezarModel
	state   hezar.TrainerState // at the end of the last phase whose configuration was taken
}

func replayHezar(ctx context.Context, s *spec.Spec) (*Run, error) {
	final := s.More.Any("final")
	if err := s.More.Done(); err != nil {
		return nil, err
	}
	if s.LossFunc != "" || len(s.Callbacks) > 0 || s.Init.ByPeer || s.Init.Seed != nil || s.HasMetrics ||
		s.Data.Iterable || s.Data.Trim || len(s.Data.EvalSets) > 0 {
		return nil, spec.Unsupportedf("with the trainer hezar: loss_func, callbacks, init by seed or by the trainer, " +
			"metrics outside of args, data.iterable, trim and eval_sets")
	}
	maxSize := s.Data.Options.FloatOrNil("max_size")
	if err := s.Data.Options.Done(); err != nil {
		return nil, err
	}
	sets, err := readRows(s)
	if err != nil {
		return nil, err
	}
	written := s.Data.Options.Map()["max_size"]
	if train := sets["train"]; train != nil && maxSize != nil {
		train.n = hezarLength(train.n, *maxSize, written)
	}
	if s.Dir, err = filepath.Abs(s.Dir); err != nil {
		return nil, err
	}
	leave, err := enterScratch()
	if err != nil {
		return nil, err
	}
	defer leave()
	r := &hezarRun{spec: s, rec: &hezarRecorder{}}
	for _, phase := range s.Phases {
		if err := r.phase(ctx, phase, sets); err != nil {
			return nil, err
		}
	}
	return r.finish(final)
}

// hezarLength is the length of a data set of n rows with a max_size: a share of them, rounded up,
// if it is written as one.
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

// enterScratch makes an empty folder the working one, since the paths in the recorded files are
// relative. What it returns goes back.
func enterScratch() (leave func(), err error) {
	before, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "conformance-")
	if err != nil {
		return nil, err
	}
	leave = func() {
		_ = os.Chdir(before)
		_ = os.RemoveAll(dir)
	}
	if err := os.Chdir(dir); err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}

// phase runs one phase. An error is one of the case; what the trainer refuses is part of the
// record.
func (r *hezarRun) phase(ctx context.Context, p spec.Phase, sets map[string]*rows) error {
	stop := -1
	if p.Options.Has("stop_after_step") {
		stop = p.Options.Int("stop_after_step", 0)
	}
	if p.StopAfterUpdate != nil || p.SameTrainer || p.Do == "predict" {
		return spec.Unsupportedf("stop_after_update, same_trainer and predict with the trainer hezar")
	}
	if err := p.Options.Done(); err != nil {
		return err
	}
	before := r.rec.mark()
	info := trace.Of("do", p.Do)
	if p.Do == "evaluate" {
		if r.trainer == nil {
			return fmt.Errorf("the phase evaluate has no trainer of a phase before it")
		}
		r.rec.evaluating = true
		r.rec.event(r.trainer, "evaluate")
		if _, err := evaluateHezar(r.trainer, ctx, nil, r.rec); err != nil {
			return err
		}
	} else {
		more, err := r.trainPhase(ctx, p, sets, stop)
		if err != nil {
			return err
		}
		info = append(info, more...)
	}
	r.rec.phase(info, before)
	return nil
}

func (r *hezarRun) trainPhase(ctx context.Context, p spec.Phase, sets map[string]*rows, stop int) (info trace.Object,
	err error) {
	if r.model, err = newHezarModel(r.spec); err != nil {
		return nil, err
	}
	config, err := r.config(p)
	if err != nil {
		return nil, err
	}
	put := func(name string, value any) { info = info.With(name, value) }
	refused := func(err error) {
		put("error", err.Error())
		r.rec.err = err
	}
	if r.trainer != nil {
		_ = r.trainer.Close()
	}
	dataset := omegaconf.Map{{Key: "name", Value: "conformance_rows"}, {Key: "config_type", Value: "dataset"},
		{Key: "path", Value: "conformance"}, {Key: "task", Value: config.Task},
		{Key: "hf_load_kwargs", Value: omegaconf.Map{}}, {Key: "kind", Value: r.spec.Data.Kind}}
	if size := recorded.Config(r.spec.Data.Options.Map()["max_size"]); size != nil {
		dataset.Set("max_size", size)
	}
	o := hezar.Options[row, hezarBatch]{Rules: hezar.Exact, RunName: "Jan01_00-00-00_host", Output: io.Discard,
		ModelConfig: r.modelConfig(), Overrides: r.rec.overrides(stop), DatasetConfig: dataset}
	o.EvalDataset = cmp.Or(sets["eval"], &rows{}) // without rows Hezar has an empty set
	r.rec.train(r.model, config)
	taken := slices.Contains(hezar.Tasks, config.Task)
	t, err := hezar.New[row, hezarBatch](config, r.model, data.Dataset[row](sets["train"]), o)
	var setting *hezar.SettingError
	field := ""
	if errors.As(err, &setting) {
		field = setting.Field
	}
	if field == "GradientAccumulationSteps" { // Hezar's configuration divides by it
		r.trainer = nil
		refused(err)
		return info, nil
	}
	if taken {
		put("metric_for_best_model", resolvedMetric(config))
		r.trainer = t
		if err != nil {
			r.state = hezarStart(config)
		}
	}
	if err != nil {
		refused(err)
		if field != "NumEpochs" && field != "BatchSize" { // which it divides by before it makes a state
			put("state_at_end", stateFields(r.state))
		}
		return info, nil
	}
	info = append(info, startFields(t)...)
	put("weights_at_start", weightsOf(r.model.Model()))
	switch err := t.Train(ctx); {
	case errors.Is(err, errKilled):
		put("error", nil)
		put("stopped", true)
	case err != nil:
		refused(err)
	default:
		put("error", nil)
	}
	r.state = t.State
	put("state_at_end", stateFields(r.state))
	return info, nil
}

// config makes the configuration of a phase: by way of a file, as a user of Hezar brings one along.
func (r *hezarRun) config(p spec.Phase) (c hezar.TrainerConfig, err error) {
	args := r.spec.PhaseArgs(p).Map()
	m := omegaconf.Map{{Key: "config_type", Value: "trainer"}}
	for _, name := range r.spec.PhaseArgs(p).Names() {
		if value := recorded.Config(args[name]); value != nil {
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
			if factor, err = parseFactor(fmt.Sprint(text), nil); err != nil {
				return c, err
			}
			m = slices.DeleteFunc(m, func(i omegaconf.Item) bool { return i.Key == "lr_scheduler_kwargs" })
		}
	}
	text, err := omegaconf.Marshal(m)
	if err != nil {
		return c, err
	}
	dir, err := os.MkdirTemp("", "config-")
	if err != nil {
		return c, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "train_config.yaml")
	if err := os.WriteFile(path, text, 0o666); err != nil {
		return c, err
	}
	if c, err = hezar.LoadTrainerConfig(path); err != nil {
		return c, spec.Unsupportedf("args: %v", err)
	}
	c.LRLambda = factor
	return c, nil
}

// resolvedMetric is metric_for_best_model with its prefix.
func resolvedMetric(c hezar.TrainerConfig) any {
	name, _ := c.Map().Get("metric_for_best_model")
	if text, ok := name.(string); ok && strings.Contains(text, ".") {
		return text
	}
	metric, set := c.MetricForBestModel, "evaluation."
	if metric == "" {
		metric = "loss"
	}
	if c.DoEvaluate != nil && !*c.DoEvaluate {
		set = "train."
	}
	if strings.HasPrefix(metric, "evaluation") || strings.HasPrefix(metric, "train") {
		return metric
	}
	return set + metric
}

// hezarStart is the state of a trainer that was refused: Hezar makes it before it looks at the
// rest.
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
		MetricForBestCheckpoint: resolvedMetric(c).(string), LogsDir: filepath.Join(c.OutputDir,
			cmp.Or(c.LogsDir, "logs"), "Jan01_00-00-00_host")}
}

// startFields are what a trainer has worked out before its first batch.
func startFields(t *hezarTrainer) trace.Object {
	_, sum, count := t.RunningLoss()
	avg := t.State.LossTrackerAvg
	c := t.Config.Map()
	orNil := func(key string) any { v, _ := c.Get(key); return v }
	return trace.Of("num_batches", t.NumBatches, "total_steps", t.TotalSteps, "steps_in_epoch", t.StepsInEpoch,
		"max_steps", orNil("max_steps"), "save_steps", orNil("save_steps"), "log_steps", orNil("log_steps"),
		"saves_in_epoch", t.SavesInEpoch, "lr_scheduling_steps", t.LRSchedulingSteps(),
		"lr_scheduler_type", orNil("lr_scheduler"), "objective", t.Objective(),
		"state_at_start", stateFields(t.State),
		"loss_tracker_at_start", trace.Of("avg", zeroOrHex(avg), "sum", zeroOrHex(sum),
			"count", count))
}

// zeroOrHex is a number of an AverageMeter, in which zero is an integer.
func zeroOrHex(v float64) any {
	if v == 0 {
		return 0
	}
	return trace.Hex(v)
}

func stateFields(s hezar.TrainerState) trace.Object {
	o := trace.Object{}
	for _, item := range s.Map() {
		o = o.With(item.Key.(string), hexed(item.Value))
	}
	return o
}

// hexed turns the values of a file into those of a trace: floats into hex, keys into strings.
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
			o = o.With(fmt.Sprint(item.Key), hexed(item.Value))
		}
		return o
	case []string:
		return v
	}
	return v
}

// evaluateHezar records what an evaluation returns.
func evaluateHezar(t *hezarTrainer, ctx context.Context, d data.Dataset[row], rec *hezarRecorder) (hezar.Logs, error) {
	logs, err := t.Evaluate(ctx, d)
	if err == nil && rec.evaluation != nil {
		rec.evaluation.result = logs
	}
	return logs, err
}

var _ engine.Task[row, hezarBatch] = (*hezarVectors)(nil)
