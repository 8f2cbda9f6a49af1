package replay

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
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
	*session

	module  *marlinModule // of the last phase
	failure error         // of the last phase
}

func replayPyMarlin(ctx context.Context, c *session) *Run {
	m := &marlin{session: c}
	c.spec.More.Any("final") // says which final tensors were stored
	for _, p := range c.spec.Phases {
		m.do(ctx, p)
	}
	return m.end()
}

// do makes module and trainer and trains. If the trainer refuses, that is recorded.
func (m *marlin) do(ctx context.Context, p spec.Phase) {
	if p.Do != "train" {
		spec.Refusef("phase %q with the trainer pymarlin", p.Do)
	}
	args, more := m.spec.PhaseArgs(p), m.spec.More
	seed := args.Int("seed", 0)
	trainSeed := p.Options.Int("seed", more.Int("seed", 0))
	stop := p.Options.Int("stop_in_train_step", more.Int("stop_in_train_step", 0))
	optimizers := more.Objects("optimizers")
	if p.Options.Has("optimizers") {
		optimizers = p.Options.Objects("optimizers")
	}
	logRate, keys := more.Bool("log_lr", false), m.spec.Data.Options.Strings("eval_keys")
	spec.Check(errors.Join(p.Options.Done(), args.Err()))
	noMore(m.spec)
	torch.ManualSeed(uint64(seed))
	m.module = &marlinModule{marlin: m, model: build(m.spec), optimizers: optimizers, stop: stop, logRate: logRate,
		keys: keys}
	torch.ManualSeed(uint64(trainSeed))
	info := trace.Of("do", p.Do)
	m.failure = refusal(func() { m.train(ctx, m.module, args, info) })
	m.phase(info.With("error", textOrNil(m.failure), "grad_norm_left_over", gradNorm(m.module.model.module)))
}

// train does what a script with PyMarlin does. What is recorded about the trainer is added to info.
func (m *marlin) train(ctx context.Context, mod *marlinModule, args *spec.Object, info trace.Object) {
	a := m.arguments(args)
	keeper := &marlinKeeper{DefaultCheckpointer: spec.Must(pymarlin.NewDefaultCheckpointer(a.CheckpointerArgs, quiet)),
		marlin: m}
	backend := &pymarlin.SingleProcess[batch]{}
	backend.ClipGradients = func() error {
		err := backend.DefaultClipGradients()
		if norm := backend.GradNorm(); err == nil && norm.Defined() {
			mod.norm = trace.Hex(norm.Item())
		}
		return err
	}
	options := &pymarlin.Options[batch]{Backend: backend, Checkpointer: keeper, Logger: quiet, Exact: true}
	// Without a GPU, PyMarlin's sp-amp continues in float32.
	if a.Backend != "" && a.Backend != "sp" && a.Backend != "sp-amp" {
		options.Backend = nil
	}
	t, err := pymarlin.New(mod, a, options)
	// Before it looks for a checkpoint, PyMarlin logs its hyperparameters, for which it counts
	// batches twice.
	if err != nil && keeper.asked && !mod.asked {
		mod.estimateBatch = pymarlin.TrainStepBatchSize(max(1, a.TrainBatchSize), cmp.Or(a.GPUBatchSizeLimit, 512))
		mod.loaderForEstimate(2)
	}
	spec.Check(err)
	mod.loaderForEstimate(1) // the recording asked for the number once more, and PyMarlin for a loader
	info.With("train_step_batch_size", t.TrainStepBatchSize(),
		"gradient_accumulation", t.GradientAccumulation(),
		"estimated_global_steps_per_epoch", t.EstimatedGlobalStepsPerEpoch(),
		"last_epoch_at_start", t.LastEpoch(), "weights_at_start", weightsOf(mod.model.module),
		"backend_at_start", trace.Of("global_step_completed", t.GlobalStepsFinished(),
			"batches_completed", t.TotalStepsFinished()))
	err = t.Train(ctx)
	info.With("global_steps_finished", t.GlobalStepsFinished(),
		"total_steps_finished", t.TotalStepsFinished(), "last_epoch_at_end", t.LastEpoch())
	spec.Check(err)
}

// arguments reads the arguments of a phase, with all folders inside the working folder.
func (m *marlin) arguments(o *spec.Object) pymarlin.TrainerArguments {
	section := spec.Must(pymarlin.ParseConfig(spec.Must(json.Marshal(o.Map())))) // JSON is a subset of YAML
	delete(section, "seed")
	if section["amp_backend_native"] != section["amp_backend_apex"] && (section["backend"] == nil ||
		section["backend"] == "sp") {
		delete(section, "amp_backend_native") // PyMarlin passes these on, but its backend sp ignores them
		delete(section, "amp_backend_apex")
	}
	if _, given := section["use_gpu"]; !given {
		section["use_gpu"] = false
	}
	section["writers"] = []any{}
	a := spec.Must(pymarlin.TrainerArgumentsFromConfig(section))
	a.DisableTqdm = true
	a.CustomWriters = []pymarlin.Writer{&marlinWriter{m}}
	keep := &a.CheckpointerArgs
	for _, dir := range []*string{&keep.SaveDir, &keep.ModelStateSaveDir} {
		*dir = filepath.Join(m.dir, cmp.Or(*dir, "checkpoints"))
	}
	if keep.LoadDir != "" {
		keep.LoadDir = filepath.Join(m.dir, keep.LoadDir)
	}
	keep.Exact = true
	return a
}

// end assembles the trace.
func (m *marlin) end() *Run {
	files := filesBelow(m.dir)
	slices.Sort(files)
	checkpoints := trace.Of("after", files, "written", m.written)
	if keys := m.keys(files); len(keys) > 0 {
		checkpoints["keys"] = keys
	}
	final := finalTensors(m.module.model, nil)
	for _, o := range m.module.made {
		final = append(final, finalTensors(nil, o.Optimizer())...)
	}
	return &Run{Trace: m.trace(m.failure, "checkpoints", checkpoints, "final", weightsOf(m.module.model.module)),
		final: final}
}

// keys returns the keys of what torch.load reads.
func (m *marlin) keys(files []string) trace.Object {
	keys := trace.Object{}
	for _, name := range files {
		if filepath.Ext(name) != ".pt" {
			continue
		}
		s := spec.Must(pymarlin.ReadState(filepath.Join(m.dir, name)))
		if s["trainer_state"] == nil {
			keys[name] = sortedKeys(s)
			continue
		}
		parts := trace.Object{}
		for part, v := range s {
			if dict, ok := v.(pymarlin.State); ok {
				parts[part] = sortedKeys(dict)
			}
		}
		keys[name] = parts
	}
	return keys
}

func sortedKeys(s pymarlin.State) []string { return slices.Sorted(maps.Keys(s)) }

// marlinKeeper records what the checkpointer writes.
type marlinKeeper struct {
	*pymarlin.DefaultCheckpointer
	marlin *marlin
	asked  bool // a checkpoint to resume from was requested
}

func (k *marlinKeeper) Load() (pymarlin.Checkpoint, error) {
	k.asked = true
	return k.DefaultCheckpointer.Load()
}

func (k *marlinKeeper) record(kind string, index int, force any, path string, err error) {
	if err != nil {
		return
	}
	at := orNil(strings.TrimPrefix(path, k.marlin.dir+string(filepath.Separator)), path != "")
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
	w.marlin.add("stats", []any{"scalar", key, value, step})
	return nil
}

func (w *marlinWriter) LogMulti(key string, values map[string]float64, step int) error {
	o := trace.Object{}
	for name, v := range values {
		o[name] = trace.Hex(v)
	}
	w.marlin.add("stats", []any{"multi", key, o, step})
	return nil
}

func (w *marlinWriter) Flush() error { return nil }
func (w *marlinWriter) Close() error { return nil }
