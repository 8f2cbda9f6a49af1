package pymarlin

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/compat/internal/loops"
	"github.com/gotrainer/gotrainer/torch"
)

// ModuleInterface is a model with its recipe: what a Python user writes as a subclass of
// pymarlin.core.module_interface.ModuleInterface. The value is the model too: its parameters are
// found by their param and module tags, as package nn finds them, unless it is a [Modeler]. B is
// the type of a batch.
//
// Everything else is optional and recognised by its type: the hooks below, [TestModule],
// [Stateful] and [StatsUser].
type ModuleInterface[B any] interface {
	// OptimizersSchedulers makes the optimizers, and the schedulers, if any, that change their
	// rates after each update. It is called once, after the weights of a checkpoint have been
	// loaded, and a second time if TrainerArguments.ResetOptimizersSchedulers is set.
	OptimizersSchedulers(estimatedGlobalStepsPerEpoch, epochs int) ([]*Optimizer, []Scheduler, error)

	// TrainDataloader makes the loader of an epoch. It is called at the start of each epoch, and
	// once before with a [SequentialSampler] to find out how many batches there are.
	TrainDataloader(sampler Sampler, batchSize int) (Dataloader[B], error)

	// ValDataloaders makes the loaders of a validation: [Single], or several with their keys. Nil
	// skips the validation.
	ValDataloaders(sampler Sampler, batchSize int) (Dataloaders[B], error)

	// TrainStep computes the loss of a batch, which must be the first of the outputs. globalStep
	// counts from 1.
	TrainStep(globalStep int, batch B, device torch.Device) (Outputs, error)

	// ValStep computes the outputs of a batch for [ValEpochEndHook]. It runs without gradients.
	ValStep(globalStep int, batch B, device torch.Device) (Outputs, error)
}

// TestModule is a module with a test: get_test_dataloaders and test_step. [Trainer.Test] runs it.
type TestModule[B any] interface {
	TestDataloaders(sampler Sampler, batchSize int) (Dataloaders[B], error)
	TestStep(globalStep int, batch B, device torch.Device) (Outputs, error)
}

// Modeler is a module whose parameters belong to another value.
type Modeler interface{ Model() any }

// StatsUser gets the trainer's stats before training; a module embeds a [StatsHolder] for this.
type StatsUser interface{ UseStats(s *Stats) }

// StatsHolder gives a module that embeds it the trainer's stats: pymarlin.utils.stats.global_stats.
type StatsHolder struct{ stats *Stats }

// UseStats is called by [New].
func (h *StatsHolder) UseStats(s *Stats) { h.stats = s }

// Stats returns the stats of the trainer that has the module, or stats without writers if there is
// none yet.
func (h *StatsHolder) Stats() *Stats {
	if h.stats == nil {
		h.stats = NewStats(StatInitArguments{})
	}
	return h.stats
}

// Stateful adds to the content of a checkpoint, or replaces it. It is for a module whose state is
// more than its state_dict, and for [Options].Extra.
type Stateful interface {
	// GetState returns what is to be saved. Tensors are written before the next update.
	GetState() (State, error)
	// UpdateState restores what GetState returned. Copy tensors that you keep: they are freed
	// afterwards.
	UpdateState(s State) error
}

// The hooks of CallbackInterface. A module implements the ones it needs; [New] refuses a method
// that has the name of a hook but not its type. Collected outputs are freed after the hook.
type (
	// TrainEpochBeginHook runs before the first batch of an epoch.
	TrainEpochBeginHook interface {
		OnBeginTrainEpoch(globalStep, epoch int) error
	}
	// BackwardEndHook runs after each backward pass; loss is the loss that was passed to it,
	// divided by the number of batches in a window.
	BackwardEndHook interface {
		OnEndBackward(globalStep int, loss torch.Tensor) error
	}
	// TrainStepEndHook runs after each update, with the outputs of its batches.
	TrainStepEndHook interface {
		OnEndTrainStep(globalStep int, outputs Collected) error
	}
	// TrainEpochEndHook runs after the validation that follows an epoch, with the outputs of all
	// batches of the epoch. They stay in memory until then, so a module without this hook needs
	// less memory.
	TrainEpochEndHook interface {
		OnEndTrainEpoch(globalStep int, outputs Collected) error
	}
	// ValEpochEndHook runs after each validation set, with the outputs of all its batches.
	ValEpochEndHook interface {
		OnEndValEpoch(globalStep int, outputs Collected, key string) error
	}
	// TrainEndHook runs once, after the last files have been written.
	TrainEndHook interface {
		OnEndTrain(globalStep int) error
	}
)

// events maps the methods of hooks to their interfaces, others those of further interfaces.
var (
	events = map[string]reflect.Type{
		"OnBeginTrainEpoch": reflect.TypeFor[TrainEpochBeginHook](),
		"OnEndBackward":     reflect.TypeFor[BackwardEndHook](),
		"OnEndTrainStep":    reflect.TypeFor[TrainStepEndHook](),
		"OnEndTrainEpoch":   reflect.TypeFor[TrainEpochEndHook](),
		"OnEndValEpoch":     reflect.TypeFor[ValEpochEndHook](),
		"OnEndTrain":        reflect.TypeFor[TrainEndHook](),
	}
	others = map[string]reflect.Type{
		"UseStats":    reflect.TypeFor[StatsUser](),
		"GetState":    reflect.TypeFor[Stateful](),
		"UpdateState": reflect.TypeFor[Stateful](),
	}
)

// checkHooks refuses methods that would never be called: misspelt hooks, and hooks with the wrong
// parameters. tests is the type of TestModule.
func checkHooks(m any, tests reflect.Type) error {
	t := reflect.TypeOf(m)
	for method := range t.Methods() {
		name := method.Name
		want := cmp.Or(events[name], others[name])
		if name == "TestDataloaders" || name == "TestStep" {
			want = tests
		}
		if want != nil && !t.Implements(want) {
			return fmt.Errorf("pymarlin: %s.%s is no method of %s, so it would never be called; see that type for "+
				"its methods and their parameters", t, name, want)
		}
		if want == nil && (strings.HasPrefix(name, "OnBegin") || strings.HasPrefix(name, "OnEnd")) {
			return fmt.Errorf("pymarlin: %s.%s is named like a hook, but there is no such hook; the hooks are %s", t, name,
				strings.Join(slices.Sorted(maps.Keys(events)), ", "))
		}
	}
	return nil
}

// call calls a hook in a scope for tensors, if the module implements it.
func call[Hook any](module any, with func(Hook) error) error {
	if h, ok := module.(Hook); ok {
		return loops.Scoped(func() error { return with(h) })
	}
	return nil
}

// modelOf returns the value that holds the parameters.
func modelOf(m any) any {
	if m, ok := m.(Modeler); ok {
		return m.Model()
	}
	return m
}
