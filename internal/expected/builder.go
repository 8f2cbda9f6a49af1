package expected

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/optim"
)

// builders are the settings of all optimizers by the names of torch.optim.
var builders = map[string]reflect.Type{}

func init() {
	for _, b := range []optim.Builder{
		optim.AdamW{}, optim.Adam{}, optim.SGD{}, optim.Adamax{}, optim.NAdam{}, optim.RAdam{}, optim.Adagrad{},
		optim.Adadelta{}, optim.RMSprop{},
		optim.Rprop{}, optim.ASGD{}, optim.Adafactor{}, optim.Muon{},
	} {
		builders[reflect.TypeOf(b).Name()] = reflect.TypeOf(b)
	}
}

// goNames are the fields whose names do not follow from Python's.
var goNames = map[string]string{
	"lr": "LR", "amsgrad": "AMSGrad", "lambd": "Lambda", "initial_accumulator_value": "InitialAccumulator", "t0": "T0",
	"d":                      "ClipThreshold",
	"decoupled_weight_decay": "DecoupledDecay",
}

// pairs are Python's tuples, which are two fields in Go.
var pairs = map[string][2]string{"betas": {"Beta1", "Beta2"}, "etas": {"EtaMinus", "EtaPlus"}, "step_sizes": {"MinStep",
	"MaxStep"}, "eps": {"Eps1", "Eps2"}}

// builderOf finds the settings for an optimizer of torch.optim from its options in Python's names.
func builderOf(name string, options map[string]any) (optim.Builder, error) {
	kind, ok := builders[name]
	if !ok {
		return nil, unsupported("there is no optimizer %q; there are %q and LBFGS", name, names(builders))
	}
	fields := map[string]any{}
	implementation := optim.ForLoop // Python's default on the CPU
	for key, value := range options {
		if value == nil { // None is the default
			continue
		}
		if on, ok := value.(bool); ok && slices.Contains([]string{"foreach", "fused", "capturable", "differentiable"},
			key) {
			switch {
			case on && key == "foreach":
				implementation = optim.Foreach
			case on && key == "fused":
				implementation = optim.Fused
			case on:
				return nil, unsupported("%s of %s is for graphs and gradients of updates", key, name)
			}
			continue
		}
		if both, ok := pairs[key]; ok && !isNumber(value) {
			list, _ := value.([]any)
			if len(list) != 2 {
				return nil, unsupported("option %s of %s is %v; want two numbers", key, name, value)
			}
			fields[both[0]], fields[both[1]] = list[0], list[1] // null in a pair is None too
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
	if f := settings.Elem().FieldByName("Implementation"); f.IsValid() {
		f.Set(reflect.ValueOf(implementation))
	}
	return settings.Elem().Interface().(optim.Builder), nil
}

func isNumber(v any) bool {
	_, ok := v.(float64)
	return ok
}

// lbfgsOf makes LBFGS, which is no Builder, from its options in Python's names.
func lbfgsOf(options map[string]any) (optim.LBFGS, error) {
	text, err := json.Marshal(options)
	if err != nil {
		return optim.LBFGS{}, err
	}
	o, err := decode[struct {
		LR              float64  `json:"lr"`
		MaxIter         int      `json:"max_iter"`
		MaxEval         int      `json:"max_eval"`
		ToleranceGrad   *float64 `json:"tolerance_grad"`
		ToleranceChange *float64 `json:"tolerance_change"`
		HistorySize     int      `json:"history_size"`
		LineSearch      string   `json:"line_search_fn"`
	}](text)
	if err == nil && o.LineSearch != "" && o.LineSearch != "strong_wolfe" {
		err = unsupported("line_search_fn of LBFGS is %q; want strong_wolfe or null", o.LineSearch)
	}
	return optim.LBFGS{LR: o.LR, MaxIter: o.MaxIter, MaxEval: o.MaxEval, ToleranceGrad: o.ToleranceGrad,
		ToleranceChange: o.ToleranceChange,
		HistorySize:     o.HistorySize, StrongWolfe: o.LineSearch != ""}, err
}
