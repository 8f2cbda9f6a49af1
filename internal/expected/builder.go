package expected

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/gotrainer/gotrainer/optim"
)

// builders are the settings of all optimizers by the names of torch.optim.
var builders = map[string]reflect.Type{}

func init() {
	for _, b := range []optim.Builder{
		optim.AdamW{}, optim.Adam{}, optim.SGD{}, optim.Adamax{}, optim.NAdam{}, optim.RAdam{}, optim.Adagrad{}, optim.Adadelta{}, optim.RMSprop{},
		optim.Rprop{}, optim.ASGD{}, optim.Adafactor{}, optim.Muon{},
	} {
		builders[reflect.TypeOf(b).Name()] = reflect.TypeOf(b)
	}
}

// goNames are the fields whose names do not follow from Python's.
var goNames = map[string]string{
	"lr": "LR", "amsgrad": "AMSGrad", "lambd": "Lambda", "initial_accumulator_value": "InitialAccumulator", "t0": "T0", "d": "ClipThreshold",
	"decoupled_weight_decay": "DecoupledDecay",
}

// pairs are Python's tuples, which are two fields in Go.
var pairs = map[string][2]string{"betas": {"Beta1", "Beta2"}, "etas": {"EtaMinus", "EtaPlus"}, "step_sizes": {"MinStep", "MaxStep"}}

// builderOf finds the settings for an optimizer of torch.optim from its options in Python's names.
func builderOf(name string, options map[string]any) (optim.Builder, error) {
	kind, ok := builders[name]
	if !ok {
		return nil, unsupported("there is no optimizer %q; there are %q and LBFGS", name, names(builders))
	}
	fields := map[string]any{}
	for key, value := range options {
		if both, ok := pairs[key]; ok {
			list, _ := value.([]any)
			if len(list) != 2 {
				return nil, unsupported("option %s of %s is %v; want two numbers", key, name, value)
			}
			fields[both[0]], fields[both[1]] = list[0], list[1]
			continue
		}
		field := goNames[key]
		if field == "" {
			for _, part := range strings.Split(key, "_") {
				field += strings.ToUpper(part[:min(1, len(part))]) + part[min(1, len(part)):]
			}
			field = strings.Replace(field, "Lr", "LR", 1)
		}
		if _, ok := kind.FieldByName(field); !ok {
			return nil, unsupported("%s has no option %q", name, key)
		}
		fields[field] = value
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	settings := reflect.New(kind)
	if err := json.Unmarshal(text, settings.Interface()); err != nil {
		return nil, unsupported("options of %s: %v", name, err)
	}
	if f := settings.Elem().FieldByName("Implementation"); f.IsValid() { // Python's default on the CPU
		f.Set(reflect.ValueOf(optim.ForLoop))
	}
	return settings.Elem().Interface().(optim.Builder), nil
}
