package replay

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/compat/pymarlin"
	"github.com/gotrainer/gotrainer/internal/conformance/recorded"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/internal/conformance/trace"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/torch"
)

var quiet = slog.New(slog.DiscardHandler)

// marlinModule is the ModuleInterface of a case, and records the calls of its methods.
type marlinModule struct {
	pymarlin.StatsHolder

	marlin     *marlin
	model      *model
	optimizers []*spec.Object
	keys       []string // keys of the validation sets; empty: a single set
	stop       int      // the training step that fails; 0: none
	logRate    bool

	made          []*pymarlin.Optimizer
	asked         bool         // optimizers were requested
	estimateBatch int          // batch size of the loader for the estimate
	norm          any          // gradient norm before the last clipping
	step          trace.Object // what is known of an optimizer's step before it is made
	update        trace.Object // the last update
}

var _ pymarlin.ModuleInterface[batch] = (*marlinModule)(nil)

func (m *marlinModule) Model() any { return m.model.module }

func (m *marlinModule) event(name string, more ...any) {
	m.marlin.add("events", append([]any{name}, more...))
}

// loaderForEstimate records the loaders that PyMarlin requests: one each time it reads
// estimated_global_steps_per_epoch. Package pymarlin needs only one.
func (m *marlinModule) loaderForEstimate(times int) {
	for range times {
		m.event("get_train_dataloader", "SequentialSampler", m.estimateBatch)
	}
}

func (m *marlinModule) OptimizersSchedulers(steps, epochs int) (_ []*pymarlin.Optimizer,
	schedulers []pymarlin.Scheduler, err error) {
	m.asked = true
	if m.made == nil {
		m.loaderForEstimate(3) // twice for the log of hyperparameters
	} else {
		m.loaderForEstimate(1)
	}
	m.event("get_optimizers_schedulers", steps, epochs)
	m.made = nil
	err = recorded.Try(func() {
		for i, o := range m.optimizers {
			made, scheduler := m.optimizer(i, o.Map(), steps*epochs)
			m.made = append(m.made, made)
			if scheduler != nil {
				scheduler.number = len(schedulers)
				schedulers = append(schedulers, scheduler)
			}
		}
	})
	return m.made, schedulers, err
}

// optimizer makes optimizer i of the case and its schedule, if it has one.
func (m *marlinModule) optimizer(i int, fields map[string]any, total int) (*pymarlin.Optimizer, *marlinSchedule) {
	o := spec.NewObject("optimizers", fields)
	prefix, schedule := o.String("params", ""), o.Object("scheduler")
	name, kwargs := o.String("name", ""), without(fields, "params", "scheduler", "name")
	kwargs["lr"] = o.Float("lr", 1e-3) // the default of torch.optim
	spec.Check(o.Err())
	builder := spec.Must(recorded.Optimizer(name, spec.NewObject("optimizers", kwargs)))
	others := func(p torch.Named) bool { return !strings.HasPrefix(p.Name, prefix) }
	made := spec.Must(pymarlin.NewOptimizer(builder, slices.DeleteFunc(nn.Params(m.model.module), others)))
	made.RegisterStepPreHook(func() {
		m.step = trace.Of("lr", hexes(made.Rates()...), "momentum", momentums(made), "grad_norm_at_step",
			gradNorm(m.model.module))
	})
	made.RegisterStepPostHook(func() { m.record(i) })
	if schedule == nil {
		return made, nil
	}
	return made, m.schedule(made, schedule.Map(), total)
}

// record records a step of optimizer i, as part of the update that the first optimizer began.
func (m *marlinModule) record(i int) {
	rec := m.marlin
	if i == 0 {
		m.update = trace.Object{"update": rec.count("updates") + 1, "after_micro": rec.count("micro_losses"),
			"grad_norm": m.norm}
		rec.add("updates", m.update)
		m.norm = nil
	}
	for name, v := range m.step {
		grow(m.update, name, v)
	}
	maps.Copy(m.update, weightsOf(m.model.module)) // the weights after the last step remain
}

// momentums returns the momentum or first beta of each group that has one.
func momentums(o *pymarlin.Optimizer) []trace.Hex {
	out := []trace.Hex{}
	_, text, err := optim.ToPyTorch(o.Optimizer())
	var layout struct {
		Groups []struct {
			Betas    []float64 `json:"betas"`
			Momentum *float64  `json:"momentum"`
		} `json:"param_groups"`
	}
	if err != nil || json.Unmarshal(text, &layout) != nil {
		return out
	}
	for _, g := range layout.Groups {
		switch {
		case len(g.Betas) > 0:
			out = append(out, trace.Hex(g.Betas[0]))
		case g.Momentum != nil:
			out = append(out, trace.Hex(*g.Momentum))
		}
	}
	return out
}

// marlinSchedule is a scheduler of the case, and records its steps.
type marlinSchedule struct {
	pymarlin.Scheduler
	marlin    *marlin
	optimizer *pymarlin.Optimizer
	number    int
	limit     int // number of steps after which PyTorch's class fails; 0 or less: none
}

// schedule makes the scheduler of an optimizer.
func (m *marlinModule) schedule(o *pymarlin.Optimizer, fields map[string]any, total int) *marlinSchedule {
	kwargs := map[string]any{}
	for name, v := range fields {
		switch {
		case name == "name":
		case v == "TOTAL":
			kwargs[name] = json.Number(fmt.Sprint(total))
		case name == "lr_lambda":
			text, ok := v.(string)
			if !ok {
				spec.Refusef("scheduler.lr_lambda is no text")
			}
			kwargs[name] = parseFactor(text, map[string]float64{"T": float64(total)})
		default:
			kwargs[name] = v
		}
	}
	name, _ := fields["name"].(string)
	planned, err := schedule(name, kwargs, 0)
	made := &marlinSchedule{Scheduler: unmeasured{}, marlin: m.marlin, optimizer: o}
	if errors.Is(err, errAdaptive) {
		return made
	}
	spec.Check(err)
	if lr.FailsAtOnce(planned, total) {
		spec.Failf("the schedule %s divides by zero", name)
	}
	made.Scheduler, made.limit = spec.Must(pymarlin.NewScheduler(o, planned, total)), lr.StepLimit(planned, total)
	return made
}

// unmeasured is a scheduler whose step needs a value that the trainer does not provide.
type unmeasured struct{}

func (unmeasured) Step() error                      { return errAdaptive }
func (unmeasured) State() (pymarlin.State, error)   { return pymarlin.State{}, nil }
func (unmeasured) LoadState(_ pymarlin.State) error { return nil }

func (s *marlinSchedule) Step() error {
	if moved, ok := s.Scheduler.(*pymarlin.LRScheduler); ok && s.limit > 0 && moved.Moves() >= s.limit {
		return fmt.Errorf("the schedule is made for %d moves", s.limit)
	}
	if err := s.Scheduler.Step(); err != nil {
		return err
	}
	s.marlin.add("scheduler_steps", []any{s.number, s.marlin.count("updates"), hexes(s.optimizer.Rates()...)})
	return nil
}

func (m *marlinModule) TrainDataloader(sampler pymarlin.Sampler, batchSize int) (pymarlin.Dataloader[batch], error) {
	if sampler == (pymarlin.SequentialSampler{}) {
		m.estimateBatch = batchSize
	} else {
		m.event("get_train_dataloader", sampler.Name(), batchSize)
	}
	return m.loader("train", sampler, batchSize)
}

func (m *marlinModule) loader(split string, sampler pymarlin.Sampler, batchSize int) (pymarlin.Dataloader[batch],
	error) {
	set, ok := m.marlin.sets[split]
	if !ok {
		return nil, fmt.Errorf("the case has no rows %s", split)
	}
	return pymarlin.NewDataloader(set, collate, pymarlin.DataloaderOptions{BatchSize: batchSize, Sampler: sampler,
		Workers: 1})
}

func (m *marlinModule) ValDataloaders(sampler pymarlin.Sampler, batchSize int) (pymarlin.Dataloaders[batch], error) {
	m.event("get_val_dataloaders", sampler.Name(), batchSize)
	if len(m.keys) == 0 {
		l, err := m.loader("eval", sampler, batchSize)
		return pymarlin.Single(l), err
	}
	var list pymarlin.Dataloaders[batch]
	for _, key := range m.keys {
		l, err := m.loader(key, sampler, batchSize)
		if err != nil {
			return nil, err
		}
		list = append(list, pymarlin.Keyed[batch]{Key: key, Loader: l})
	}
	return list, nil
}

func (m *marlinModule) TrainStep(globalStep int, b batch, _ torch.Device) (pymarlin.Outputs, error) {
	m.event("train_step", globalStep)
	rec := m.marlin
	rec.add("batches", b.index)
	loss := m.model.forward(b, 0).loss
	rec.add("micro_losses_unscaled", trace.Hex(loss.Item()))
	if m.stop > 0 && rec.count("batches") == m.stop {
		return pymarlin.Outputs{}, errors.New("stopped")
	}
	return pymarlin.Tensors(loss, b.tensor("labels")), nil
}

func (m *marlinModule) ValStep(globalStep int, b batch, _ torch.Device) (pymarlin.Outputs, error) {
	m.event("val_step", globalStep)
	out := m.model.forward(b, 0)
	predicted := out.logits
	if !m.model.regresses {
		predicted = predicted.ArgMax(-1, false)
	}
	return pymarlin.Tensors(out.loss, predicted, b.tensor("labels")), nil
}

func (m *marlinModule) OnBeginTrainEpoch(globalStep, epoch int) error {
	m.event("on_begin_train_epoch", globalStep, epoch)
	return nil
}

func (m *marlinModule) OnEndBackward(globalStep int, loss torch.Tensor) error {
	m.marlin.add("micro_losses", trace.Hex(loss.Item()))
	m.event("on_end_backward", globalStep)
	return nil
}

func shapes(c pymarlin.Collected) [][]int64 {
	var out [][]int64
	for _, t := range c.Tensors {
		out = append(out, t.Shape())
	}
	return out
}

func (m *marlinModule) OnEndTrainStep(globalStep int, outputs pymarlin.Collected) error {
	m.event("on_end_train_step", globalStep, shapes(outputs))
	if m.logRate {
		m.Stats().Update("lr", m.made[0].Rates()[0], true)
	}
	return nil
}

func (m *marlinModule) OnEndTrainEpoch(globalStep int, outputs pymarlin.Collected) error {
	m.event("on_end_train_epoch", globalStep, shapes(outputs))
	return nil
}

func (m *marlinModule) OnEndTrain(globalStep int) error {
	m.event("on_end_train", globalStep)
	return nil
}

func (m *marlinModule) OnEndValEpoch(globalStep int, outputs pymarlin.Collected, key string) error {
	m.event("on_end_val_epoch", globalStep, key)
	losses, predicted, labels := outputs.Tensors[0], outputs.Tensors[1], outputs.Tensors[2]
	mean, accuracy := losses.Mean(torch.DefaultDType).Item(), any(nil)
	if predicted.Dim() == 1 {
		accuracy = trace.Hex(predicted.Eq(labels).ToDType(torch.Float32).Mean(torch.DefaultDType).Item())
	}
	values := any(trace.Hex(mean)) // for a single batch there is no list
	if losses.Dim() > 0 {
		values = hexes(torch.Values[float64](losses.ToDType(torch.Float64))...)
	}
	m.marlin.add("evaluations", trace.Of("global_step", globalStep, "key", key,
		"losses", values, "outputs", int(labels.Size(0)), "mean_of_batch_losses", trace.Hex(mean),
		"accuracy", accuracy, "module_training", m.model.training()))
	m.Stats().Update("val_loss/"+key, mean, false)
	return nil
}
