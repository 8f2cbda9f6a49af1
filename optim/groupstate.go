package optim

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/torch"
)

// groupState is a number that an optimizer keeps for a group as a whole: an entry of PyTorch's
// param_groups other than the settings, such as schedulefree's weight_sum. In an optimizer state it
// is a float64 tensor without dimensions, named for example "param_groups.0.weight_sum".
type groupState struct {
	name    string
	initial float64
	kind    groupStateKind // type of the entry in Python
}

type groupStateKind uint8

const (
	floatEntry groupStateKind = iota
	intEntry
	boolEntry
)

const groupPrefix = "param_groups."

func (r *rule) groupNumbers() []float64 {
	numbers := make([]float64, len(r.groupStates))
	for i, s := range r.groupStates {
		numbers[i] = s.initial
	}
	return numbers
}

func (o *optimizer) hasGroupStates() bool {
	return slices.ContainsFunc(o.groups, func(g *group) bool { return len(g.rule.groupStates) > 0 })
}

// groupState returns the state of the groups. There is none before the first update.
func (o *optimizer) groupState() (all []torch.Named) {
	if o.updates == 0 {
		return nil
	}
	for i, g := range o.groups {
		for j, s := range g.rule.groupStates {
			t := torch.TensorOptions{DType: torch.Float64}.Full(g.numbers[j])
			all = append(all, torch.Named{Name: fmt.Sprintf("%s%d.%s", groupPrefix, i, s.name), Tensor: t})
		}
	}
	return all
}

// takeGroupState separates the state of the groups from that of the parameters. If there is none,
// the groups start with initial values.
func (o *optimizer) takeGroupState(given []torch.Named) (rest []torch.Named, numbers [][]float64, err error) {
	numbers = make([][]float64, len(o.groups))
	for i, g := range o.groups {
		numbers[i] = g.rule.groupNumbers()
	}
	found := map[string]bool{}
	for _, s := range given {
		i, j, ok := o.groupEntry(s.Name)
		if !ok {
			rest = append(rest, s)
			continue
		}
		if !s.Tensor.Defined() || s.Tensor.Numel() != 1 {
			return nil, nil, errorf(ErrState, "state %q is no single number", s.Name)
		}
		if failed := torch.Try(func() { numbers[i][j] = s.Tensor.Item() }); failed != nil {
			return nil, nil, errorf(ErrState, "state %q: %v", s.Name, failed)
		}
		found[s.Name] = true
	}
	if len(given) == 0 {
		return rest, numbers, nil
	}
	for i, g := range o.groups {
		for _, s := range g.rule.groupStates {
			if name := fmt.Sprintf("%s%d.%s", groupPrefix, i, s.name); !found[name] {
				return nil, nil, errorf(ErrState, "state %q is missing; this %s of %d groups cannot continue "+
					"without it", name, o.name, len(o.groups))
			}
		}
	}
	return rest, numbers, nil
}

// groupEntry parses a name such as "param_groups.0.k".
func (o *optimizer) groupEntry(name string) (group, entry int, ok bool) {
	text, ok := strings.CutPrefix(name, groupPrefix)
	digits, key, dotted := strings.Cut(text, ".")
	group, err := strconv.Atoi(digits)
	if !ok || !dotted || err != nil || group < 0 || group >= len(o.groups) {
		return 0, 0, false
	}
	for i, s := range o.groups[group].rule.groupStates {
		if s.name == key {
			return group, i, true
		}
	}
	return 0, 0, false
}

// python returns the value of the entry with its type in Python.
func (s groupState) python(v float64) any {
	switch s.kind {
	case intEntry:
		return int64(v)
	case boolEntry:
		return v != 0
	}
	return v
}

// groupStateOf reads the state of the groups from PyTorch's param_groups, and the largest count in
// it. For AdaLomo they contain none.
func (o *optimizer) groupStateOf(paramGroups []byte) (all []torch.Named, largest float64, err error) {
	if !o.hasGroupStates() {
		return nil, 0, nil
	}
	var given struct {
		Groups []map[string]any `json:"param_groups"`
	}
	if err := json.Unmarshal(paramGroups, &given); err != nil {
		return nil, 0, errorf(ErrState, "the groups are not JSON of PyTorch's layout: %v", err)
	}
	if len(given.Groups) != len(o.groups) {
		return nil, 0, errorf(ErrState, "the state has %d groups; want %d, as this %s", len(given.Groups),
			len(o.groups),
			o.name)
	}
	for i, group := range given.Groups {
		for _, s := range o.groups[i].rule.groupStates {
			name := fmt.Sprintf("%s%d.%s", groupPrefix, i, s.name)
			var number float64
			switch v := group[s.name].(type) {
			case float64:
				number = v
			case bool:
				if v {
					number = 1
				}
			default:
				return nil, 0, errorf(ErrState, "group %d of the state has %v for %q; want a number", i, v, s.name)
			}
			if s.kind == intEntry {
				largest = math.Max(largest, number)
			}
			all = append(all, torch.Named{Name: name, Tensor: torch.TensorOptions{DType: torch.Float64}.Full(number)})
		}
	}
	return all, largest, nil
}
