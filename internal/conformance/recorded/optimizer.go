package recorded

import (
	"reflect"
	"strings"

	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/optim"
)

// builders are the optimizers of torch.optim.
var builders = []optim.Builder{optim.AdamW{}, optim.Adam{}, optim.SGD{}, optim.Adamax{}, optim.NAdam{}, optim.RAdam{},
	optim.Adagrad{}, optim.Adadelta{}, optim.RMSprop{}, optim.Rprop{}, optim.ASGD{}, optim.Adafactor{}, optim.Muon{}}

// Optimizer returns the builder for a class of torch.optim, whose name may be in lower case, with
// keyword arguments. It computes like PyTorch's default on a CPU: operator by operator, parameter
// by parameter.
func Optimizer(name string, kwargs *spec.Object) (optim.Builder, error) {
	var kind reflect.Type
	for _, b := range builders {
		if t := reflect.TypeOf(b); t.Name() == name || strings.ToLower(t.Name()) == name {
			kind = t
		}
	}
	if kind == nil {
		return nil, spec.Unsupportedf("there is no optimizer %q in torch.optim, or none here", name)
	}
	k := kwargs.Merge()
	for _, option := range []string{"capturable", "differentiable"} {
		if k.Bool(option, false) {
			return nil, spec.Unsupportedf("%s of %s is for graphs and gradients of updates", option, name)
		}
	}
	implementation := optim.ForLoop
	if k.Bool("foreach", false) {
		implementation = optim.Foreach
	}
	if k.Bool("fused", false) {
		implementation = optim.Fused
	}
	settings := reflect.New(kind)
	names := []string{"betas:Beta1,Beta2", "etas:EtaMinus,EtaPlus", "step_sizes:MinStep,MaxStep", "lambd:Lambda",
		"initial_accumulator_value:InitialAccumulator", "decoupled_weight_decay:DecoupledDecay", "d:ClipThreshold"}
	if _, pair := kind.FieldByName("Eps1"); pair {
		names = append(names, "eps:Eps1,Eps2")
	}
	k.Fill(settings.Interface(), names...)
	if f := settings.Elem().FieldByName("Implementation"); f.IsValid() {
		f.Set(reflect.ValueOf(implementation))
	}
	return settings.Elem().Interface().(optim.Builder), k.Done() //nolint:forcetypeassert // it is one of builders
}
