package replay

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/compat/pymarlin"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/internal/conformance/trace"
	"github.com/gotrainer/gotrainer/torch"
)

// marlin replays a run of PyMarlin's trainer with package compat/pymarlin.
type marlin struct {
	spec *spec.Spec
	sets map[string]*rows
	dir  string // working folder, to which all paths of the case are relative
	rec  recorder

	module  *marlinModule // of the last phase
	failure any           // the error of the last phase
	written []any         // by the checkpointer
}

func replayPyMarlin(ctx context.Context, s *spec.Spec) (*Run, error) {
	m := &marlin{spec: s}
	s.More.Objects("optimizers") // read by each phase
	s.More.Bool("log_lr", false)
	s.More.Int("seed", 0)
	s.More.Int("stop_in_train_step", 0)
	s.More.Any("final")
	s.Data.Options.Strings("eval_keys")
	if err := noMore(s); err != nil {
		return nil, err
	}
	var err error
	if m.sets, err = readRows(s); err != nil {
		return nil, err
	}
	if m.dir, err = os.MkdirTemp("", "pymarlin-"); err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(m.dir) }()
	for _, p := range s.Phases {
		if err := m.phase(ctx, p); err != nil {
			return nil, err
		}
	}
	return m.run()
}

// phase builds module and trainer anew and trains. The error is about the case; what the trainer
// refuses is recorded.
func (m *marlin) phase(ctx context.Context, p spec.Phase) error {
	if p.Do != "train" {
		return spec.Unsupportedf("phase %q with the trainer pymarlin", p.Do)
	}
	args := m.spec.PhaseArgs(p)
	seed := args.Int("seed", 0)
	trainSeed := p.Options.Int("seed", m.spec.More.Int("seed", 0))
	stop := p.Options.Int("stop_in_train_step", m.spec.More.Int("stop_in_train_step", 0))
	optimizers := m.spec.More.Objects("optimizers")
	if p.Options.Has("optimizers") {
		optimizers = p.Options.Objects("optimizers")
	}
	if err := errors.Join(p.Options.Done(), m.spec.More.Err(), args.Err()); err != nil {
		return err
	}
	torch.ManualSeed(uint64(seed))
	model, err := m.build()
	if err != nil {
		return err
	}
	mod := &marlinModule{marlin: m, model: model, optimizers: optimizers, stop: stop,
		logRate: m.spec.More.Bool("log_lr", false), keys: m.spec.Data.Options.Strings("eval_keys")}
	m.module = mod
	torch.ManualSeed(uint64(trainSeed))
	rec := &m.rec
	before := rec.mark()
	info, failed := m.train(ctx, mod, args)
	if aboutCase(failed) {
		return failed
	}
	m.failure = nil
	if failed != nil {
		m.failure = failed.Error()
	}
	phase := append(trace.Of("do", p.Do, "error", m.failure), info...)
	rec.phase(phase.With("grad_norm_left_over", gradNorm(model.module())), before)
	return nil
}

// build makes the model with its initial weights.
func (m *marlin) build() (model, error) {
	if m.spec.Init.Formula == nil || len(m.spec.Model.Freeze) > 0 {
		return build(m.spec)
	}
	made, err := construct(m.spec.Model)
	if err != nil {
		return nil, err
	}
	return made, formulaInit(made.module(), m.spec.Init.Formula.Merge())
}

// train is what a script with PyMarlin does. It returns what the trainer said of itself.
func (m *marlin) train(ctx context.Context, mod *marlinModule, args *spec.Object) (trace.Object, error) {
	a, err := m.arguments(args)
	if err != nil {
		return nil, err
	}
	made, err := pymarlin.NewDefaultCheckpointer(a.CheckpointerArgs, quiet)
	if err != nil {
		return nil, err
	}
	keeper := &marlinKeeper{DefaultCheckpointer: made, marlin: m}
	backend := &pymarlin.SingleProcess[batch]{}
	backend.ClipGradients = func() error {
		err := backend.DefaultClipGradients()
		if norm := backend.GradNorm(); err == nil && norm.Defined() {
			mod.norm = trace.Hex(norm.Item())
		}
		return err
	}
	options := &pymarlin.Options[batch]{Backend: backend, Checkpointer: keeper, Logger: quiet, Exact: true}
	// without a GPU PyMarlin's sp-amp goes on in float32
	if a.Backend != "" && a.Backend != "sp" && a.Backend != "sp-amp" {
		options.Backend = nil
	}
	t, err := pymarlin.New(mod, a, options)
	if err != nil {
		// PyMarlin has logged its hyperparameters, for which it counts batches twice, before it
		// looks for a checkpoint
		if keeper.asked && !mod.asked {
			mod.estimateBatch = pymarlin.TrainStepBatchSize(max(1, a.TrainBatchSize), cmp.Or(a.GPUBatchSizeLimit, 512))
			mod.loaderForEstimate(2)
		}
		return nil, err
	}
	mod.loaderForEstimate(1) // the recording asked once more for the number, and PyMarlin for a loader
	counts := func() trace.Object {
		return trace.Of("global_step_completed", t.GlobalStepsFinished(),
			"batches_completed", t.TotalStepsFinished())
	}
	info := trace.Of("train_step_batch_size", t.TrainStepBatchSize(),
		"gradient_accumulation", t.GradientAccumulation(),
		"estimated_global_steps_per_epoch", t.EstimatedGlobalStepsPerEpoch(),
		"last_epoch_at_start", t.LastEpoch(), "weights_at_start", weightsOf(mod.model.module()),
		"backend_at_start", counts())
	failed := t.Train(ctx)
	return info.With("global_steps_finished", t.GlobalStepsFinished(),
		"total_steps_finished", t.TotalStepsFinished(), "last_epoch_at_end", t.LastEpoch()), failed
}

// arguments reads the arguments of a phase, with all folders below the working folder.
func (m *marlin) arguments(o *spec.Object) (pymarlin.TrainerArguments, error) {
	text, err := json.Marshal(o.Map())
	if err != nil {
		return pymarlin.TrainerArguments{}, err
	}
	section, err := pymarlin.ParseConfig(text) // JSON is YAML
	if err != nil {
		return pymarlin.TrainerArguments{}, err
	}
	delete(section, "seed")
	if section["amp_backend_native"] != section["amp_backend_apex"] && (section["backend"] == nil ||
		section["backend"] == "sp") {
		delete(section, "amp_backend_native") // PyMarlin hands them on, and its backend sp does not look at them
		delete(section, "amp_backend_apex")
	}
	if _, given := section["use_gpu"]; !given {
		section["use_gpu"] = false
	}
	section["writers"] = []any{}
	a, err := pymarlin.TrainerArgumentsFromConfig(section)
	if err != nil {
		return a, err
	}
	a.DisableTqdm = true
	a.CustomWriters = []pymarlin.Writer{&marlinWriter{m}}
	keep := &a.CheckpointerArgs
	for _, dir := range []*string{&keep.SaveDir, &keep.ModelStateSaveDir} {
		if *dir == "" {
			*dir = "checkpoints"
		}
		*dir = filepath.Join(m.dir, *dir)
	}
	if keep.LoadDir != "" {
		keep.LoadDir = filepath.Join(m.dir, keep.LoadDir)
	}
	keep.Exact = true
	return a, nil
}

// run puts the trace together.
func (m *marlin) run() (*Run, error) {
	files, keys, err := m.files()
	if err != nil {
		return nil, err
	}
	checkpoints := trace.Of("after", files, "written", m.written)
	if len(keys) > 0 {
		checkpoints = checkpoints.With("keys", keys)
	}
	refused := any(nil)
	if m.failure != nil {
		refused = trace.Of("text", m.failure)
	}
	final := finalTensors(m.module.model.module(), nil)
	for _, o := range m.module.made {
		final = append(final, finalTensors(nil, o.Optimizer())...)
	}
	return &Run{Trace: m.rec.trace(nil, "checkpoints", checkpoints, "final", weightsOf(m.module.model.module()),
		"error", refused), final: final}, nil
}

// files lists what was written, and the keys of what torch.load reads.
func (m *marlin) files() (files []string, keys trace.Object, err error) {
	files = []string{}
	err = filepath.WalkDir(m.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		files = append(files, m.relative(path))
		return nil
	})
	slices.Sort(files)
	for _, name := range files {
		if err != nil || filepath.Ext(name) != ".pt" {
			continue
		}
		var s pymarlin.State
		if s, err = pymarlin.ReadState(filepath.Join(m.dir, name)); err != nil {
			break
		}
		if s["trainer_state"] == nil {
			keys = keys.With(name, sortedKeys(s))
			continue
		}
		parts := trace.Object{}
		for _, part := range sortedKeys(s) {
			if dict, ok := s[part].(pymarlin.State); ok {
				parts = parts.With(part, sortedKeys(dict))
			}
		}
		keys = keys.With(name, parts)
	}
	return files, keys, err
}

func sortedKeys(s pymarlin.State) []string {
	names := []string{}
	for k := range s {
		names = append(names, k)
	}
	slices.Sort(names)
	return names
}

// relative is a path as the recording has it; nil stands for none.
func (m *marlin) relative(path string) string {
	return strings.TrimPrefix(strings.TrimPrefix(path, m.dir), string(filepath.Separator))
}

// marlinKeeper records what the checkpointer writes.
type marlinKeeper struct {
	*pymarlin.DefaultCheckpointer
	marlin *marlin
	asked  bool // for a checkpoint to go on from
}

func (k *marlinKeeper) Load() (pymarlin.Checkpoint, error) {
	k.asked = true
	return k.DefaultCheckpointer.Load()
}

func (k *marlinKeeper) record(kind string, index int, force any, path string, err error) {
	if err != nil {
		return
	}
	at := any(nil)
	if path != "" {
		at = k.marlin.relative(path)
	}
	k.marlin.written = append(k.marlin.written, []any{kind, index, force, at})
}

func (k *marlinKeeper) Save(c pymarlin.Checkpoint, index int, force bool) (string, error) {
	path, err := k.DefaultCheckpointer.Save(c, index, force)
	k.record("save", index, force, path, err)
	return path, err
}

func (k *marlinKeeper) SaveModel(s pymarlin.State, index int) (string, error) {
	path, err := k.DefaultCheckpointer.SaveModel(s, index)
	k.record("save_model", index, nil, path, err)
	return path, err
}

// marlinWriter records the stats.
type marlinWriter struct{ marlin *marlin }

func (w *marlinWriter) LogScalar(key string, v float64, step int) error {
	value := any(trace.Hex(v))
	if key == "epoch" {
		value = int(v) // an int in Python
	}
	w.marlin.rec.add("stats", []any{"scalar", key, value, step})
	return nil
}

func (w *marlinWriter) LogMulti(key string, values map[string]float64, step int) error {
	o := map[string]any{}
	for name, v := range values {
		o[name] = trace.Hex(v)
	}
	w.marlin.rec.add("stats", []any{"multi", key, o, step})
	return nil
}

func (w *marlinWriter) Flush() error { return nil }
func (w *marlinWriter) Close() error { return nil }
