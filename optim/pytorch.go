package optim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/torch"
)

// ToPyTorch returns an optimizer's state in the layout of PyTorch's state_dict(), split into what
// fits into a safetensors file and the rest, as JSON. Parameters are numbered in the order of the
// groups:
//
//	tensors: "state.0.step", "state.0.exp_avg", "state.0.exp_avg_sq", "state.1.step", ...
//	JSON:    {"param_groups": [{"lr": 5e-5, "betas": [0.9, 0.999], ..., "params": [0, 1],
//	          "param_names": ["fc1.weight", "fc1.bias"]}, ...]}
//
// In Python,
//
//	state = collections.defaultdict(dict)
//	for key, value in safetensors.torch.load_file("optimizer.safetensors").items():
//	    _, number, kind = key.split(".")
//	    state[int(number)][kind] = value
//	optimizer.load_state_dict({"state": dict(state), **json.load(open("optimizer.json"))})
//
// continues the run. The rates are those of the last Step. param_names are included, as in an
// optimizer of PyTorch that was given named_parameters(). The tensors are the states themselves,
// not copies. Only optimizers of this package are supported; others are refused with [ErrState].
// For an optimizer of a Python library that keeps its step as a number, use int(value).
func ToPyTorch(o Optimizer) (tensors []torch.Named, paramGroups []byte, err error) {
	opt, err := own(o)
	if err != nil {
		return nil, nil, err
	}
	numbers := map[string]int{}
	var groups []map[string]any
	for _, g := range opt.groups {
		group := maps.Clone(g.rule.options)
		if group == nil {
			group = map[string]any{}
		}
		g.momentumOption(group)
		if g.LowRank {
			maps.Copy(group, g.rule.lowRankOptions)
		}
		group["lr"], group["weight_decay"] = opt.lr*g.LRScale, *g.WeightDecay
		indices, names := []int{}, []string{}
		for _, m := range g.members {
			indices, names = append(indices, len(numbers)), append(names, m.Name)
			numbers[m.Name] = len(numbers)
		}
		group["params"], group["param_names"] = indices, names
		group["differentiable"], group["capturable"] = false, false
		group["foreach"], group["fused"] = nil, nil
		switch g.rule.implementation {
		case Fused:
			group["fused"] = true
		case Foreach:
			group["foreach"] = true
		case ForLoop:
			group["foreach"], group["fused"] = false, false
		}
		for j, s := range g.rule.groupStates {
			group[s.name] = s.python(g.numbers[j])
		}
		groups = append(groups, group)
	}
	for _, s := range opt.State() {
		if _, _, ok := opt.groupEntry(s.Name); ok {
			continue
		}
		dot := strings.LastIndexByte(s.Name, '.')
		tensors = append(tensors, torch.Named{Name: fmt.Sprintf("state.%d.%s", numbers[s.Name[:dot]], s.Name[dot+1:]),
			Tensor: s.Tensor})
	}
	paramGroups, err = json.Marshal(map[string]any{"param_groups": groups})
	if err != nil {
		return nil, nil, errorf(ErrState, "%v", err)
	}
	return tensors, paramGroups, nil
}

// FromPyTorch restores a state_dict() of PyTorch in the layout of [ToPyTorch]. Parameters are
// matched by param_names if the groups have them. Otherwise they are matched by number, and o must
// have been given its parameters in the same order, in groups of the same sizes. The number of
// updates becomes the largest step. o keeps its own settings and rates. State that does not match,
// or that o does not keep, is refused with [ErrState], and then nothing has changed.
func FromPyTorch(o Optimizer, tensors []torch.Named, paramGroups []byte) error {
	opt, err := own(o)
	if err != nil {
		return err
	}
	names, err := parameterNames(opt, paramGroups)
	if err != nil {
		return err
	}
	state := make([]torch.Named, 0, len(tensors))
	updates := 0.0
	for _, t := range tensors {
		number, kind, err := stateKey(t.Name)
		if err != nil {
			return err
		}
		name, ok := names[number]
		if !ok {
			return errorf(ErrState, "state %q is of parameter %d; the groups have no such number", t.Name, number)
		}
		if kind == "step" && t.Tensor.Defined() && t.Tensor.Numel() == 1 {
			updates = math.Max(updates, t.Tensor.Item())
		}
		state = append(state, torch.Named{Name: name + "." + kind, Tensor: t.Tensor})
	}
	numbers, largest, err := opt.groupStateOf(paramGroups)
	if err != nil {
		return err
	}
	state, updates = append(state, numbers...), math.Max(updates, largest)
	if !(updates >= 0 && updates <= 1<<53) {
		return errorf(ErrState, "the largest step is %g; want a number of updates", updates)
	}
	return o.LoadState(state, int(updates))
}

func own(o Optimizer) (*optimizer, error) {
	if l, ok := o.(*layerWise); ok {
		return l.optimizer, nil
	}
	opt, ok := o.(*optimizer)
	if !ok {
		return nil, errorf(ErrState, "a %T has no known layout in PyTorch; want an optimizer that this package has "+
			"made", o)
	}
	return opt, nil
}

// stateKey parses a key such as "state.0.exp_avg".
func stateKey(key string) (number int, kind string, err error) {
	rest, ok := strings.CutPrefix(key, "state.")
	digits, kind, dotted := strings.Cut(rest, ".")
	number, bad := strconv.Atoi(digits)
	if !ok || !dotted || bad != nil || number < 0 || kind == "" || strings.Contains(kind, ".") ||
		strconv.Itoa(number) != digits {
		return 0, "", errorf(ErrState, "state %q has no name of PyTorch's; want state.NUMBER.KIND", key)
	}
	return number, kind, nil
}

// parameterNames maps PyTorch's numbers to the names of opt's parameters.
func parameterNames(opt *optimizer, paramGroups []byte) (map[int]string, error) {
	var given struct {
		Groups []struct {
			Params []int    `json:"params"`
			Names  []string `json:"param_names"`
		} `json:"param_groups"`
	}
	d := json.NewDecoder(bytes.NewReader(paramGroups))
	if err := d.Decode(&given); err != nil {
		return nil, errorf(ErrState, "the groups are not JSON of PyTorch's layout: %v", err)
	}
	known := map[string]bool{}
	for _, p := range opt.params {
		known[p.Name] = true
	}
	names, taken := map[int]string{}, map[string]bool{}
	named := len(given.Groups) > 0
	for _, g := range given.Groups {
		named = named && len(g.Names) == len(g.Params)
	}
	if !named && len(given.Groups) != len(opt.groups) {
		return nil, errorf(ErrState, "the state has %d groups without names of parameters; want %d, as this %s",
			len(given.Groups), len(opt.groups), opt.name)
	}
	for i, g := range given.Groups {
		if !named && len(g.Params) != len(opt.groups[i].members) {
			return nil, errorf(ErrState, "group %d of the state has %d parameters; want %d", i, len(g.Params),
				len(opt.groups[i].members))
		}
		for j, number := range g.Params {
			var name string
			if named {
				name = g.Names[j]
			} else {
				name = opt.groups[i].members[j].Name
			}
			if !known[name] {
				return nil, errorf(ErrState, "group %d of the state has a parameter %q that this %s has not", i, name,
					opt.name)
			}
			if _, twice := names[number]; twice || taken[name] {
				return nil, errorf(ErrState, "group %d of the state has parameter %d, %q, twice", i, number, name)
			}
			names[number], taken[name] = name, true
		}
	}
	return names, nil
}
