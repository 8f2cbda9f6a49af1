package nn_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// block has every kind of field.
type block struct {
	common

	Scale  torch.Tensor         `param:"scale"`
	None   torch.Tensor         `param:"none"`
	Steps  torch.Tensor         `buffer:"steps"`
	Ids    torch.Tensor         `buffer:"ids,nonpersistent"`
	Fc     *nn.Linear           `module:"fc"`
	Absent *nn.Linear           `module:"absent"`
	Act    nn.Layer             `module:"act"`
	Value  nn.BatchNorm1d       `module:"value"`
	List   []nn.Layer           `module:"list"`
	Heads  map[string]nn.Layer  `module:"heads"`
	Grid   [][]*nn.Linear       `module:"grid"`
	Pair   [2]*nn.Linear        `module:"pair"`
	Other  *nn.Linear           `module:"-"`
	Plain  torch.Tensor         // no tag: not part of the state
	Notes  map[string][]float64 // no tag either
}

type common struct {
	Shared torch.Tensor `param:"shared"`
}

func small() *nn.Linear { return nn.NewLinear(1, 1, &nn.LinearOptions{NoBias: true}) }

func newBlock() *block {
	b := &block{
		common: common{nn.Parameter(torch.Ones(2))},
		Scale:  nn.Parameter(torch.Ones(3)),
		Steps:  nn.Buffer(torch.Zeros(1)),
		Ids:    nn.Buffer(torch.Arange(3)),
		Fc:     nn.NewLinear(2, 2, nil),
		Act:    nn.ReLU{},
		Value:  *nn.NewBatchNorm1d(2, nil),
		List:   []nn.Layer{small(), nn.ReLU{}, nn.Sequential{nn.ReLU{}, small()}},
		Heads:  map[string]nn.Layer{"b": small(), "a": small()},
		Grid:   [][]*nn.Linear{{small()}, {nil, small()}},
		Pair:   [2]*nn.Linear{small(), nil},
		Other:  small(),
		Plain:  torch.Ones(1),
	}
	b.Heads["c"] = b.List[0] // shared
	return b
}

func TestNamesAndOrderFollowTheTags(t *testing.T) {
	testenv.RequireTorch(t)
	b := newBlock()
	tests := []struct {
		name string
		got  []string
		want string
	}{
		{"parameters: own first, shared ones once", names(nn.Params(b)),
			"shared scale fc.weight fc.bias value.weight value.bias list.0.weight list.2.1.weight heads.a.weight " +
				"heads.b.weight grid.0.0.weight grid.1.1.weight pair.0.weight"},
		{"buffers, the ones that are not saved too", names(nn.Buffers(b)),
			"steps ids value.running_mean value.running_var value.num_batches_tracked"},
		{"state: buffers beside parameters, shared ones under each name", names(nn.StateDict(b)),
			"shared scale steps fc.weight fc.bias value.weight value.bias value.running_mean value.running_var " +
				"value.num_batches_tracked list.0.weight list.2.1.weight heads.a.weight heads.b.weight " +
				"heads.c.weight grid.0.0.weight grid.1.1.weight pair.0.weight"},
		{"children", moduleNames(nn.Children(b)), "fc act value list heads grid pair"},
		{"modules: each before its children, shared ones once", moduleNames(nn.Modules(b)),
			"- fc act value list list.0 list.1 list.2 list.2.0 list.2.1 heads heads.a heads.b grid grid.0 grid.0.0 " +
				"grid.1 grid.1.1 pair pair.0"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(strings.Fields(test.want), test.got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
	if total, trainable := nn.CountParams(b); total != 2+3+6+4+7 || trainable != total {
		t.Errorf("CountParams = %d, %d, want 22, 22", total, trainable)
	}
}

// listing is a module whose child is named by an option.
type listing struct {
	Fc   *nn.Linear `module:"fc"`
	name string
	own  nn.Layer `module:"-"`
}

func (l *listing) OwnModules() []nn.Named { return []nn.Named{{Name: l.name, Module: l.own}} }

func TestListedModulesComeBehindTheFields(t *testing.T) {
	testenv.RequireTorch(t)
	m := map[string]any{"top": &listing{Fc: small(), name: "late", own: nn.Sequential{small()}}}
	want := strings.Fields("top.fc.weight top.late.0.weight")
	if diff := cmp.Diff(want, names(nn.Params(m))); diff != "" {
		t.Errorf("parameters (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(want, names(nn.StateDict(m))); diff != "" {
		t.Errorf("state (-want +got)\n%s", diff)
	}
	nameless := map[string]any{"top": &listing{Fc: small(), own: small()}}
	if diff := cmp.Diff(strings.Fields("top.fc.weight top.weight"), names(nn.Params(nameless))); diff != "" {
		t.Errorf("parameters of a child without a name (-want +got)\n%s", diff)
	}
}

func moduleNames(ms []nn.Named) []string {
	var list []string
	for _, m := range ms {
		if m.Name == "" {
			m.Name = "-"
		}
		list = append(list, m.Name)
	}
	return list
}

func TestOrderIsTheSameEveryTime(t *testing.T) {
	testenv.RequireTorch(t)
	heads := map[string]nn.Layer{}
	for i := range 50 {
		heads[fmt.Sprint("h", i)] = small()
	}
	first := names(nn.Params(heads))
	for range 5 {
		if diff := cmp.Diff(first, names(nn.Params(heads))); diff != "" {
			t.Fatal(diff)
		}
	}
}

type cyclic struct {
	W    torch.Tensor `param:"w"`
	Next *cyclic      `module:"next"`
}

type mutual struct {
	Fc      *nn.Linear `module:"fc"`
	parent  *mutual    `module:"-"`
	Counter int
}

func TestWrongTagsAreNamed(t *testing.T) {
	testenv.RequireTorch(t)
	type noTag struct{ Fc *nn.Linear }
	type noTagList struct{ Layers []nn.Layer }
	type noTagRNN struct{ RNN *nn.LSTM }
	type noTagValue struct{ RNN nn.LSTM }
	type noTagDropout struct {
		Fc   *nn.Linear `module:"fc"`
		Drop *nn.Dropout
	}
	type noTagRReLUs struct{ Acts []nn.RReLU }
	type unexported struct {
		fc *nn.Linear `module:"fc"`
	}
	type twice struct {
		A torch.Tensor `param:"w"`
		B torch.Tensor `buffer:"w"`
	}
	type embedded struct {
		common
		Mine torch.Tensor `param:"shared"`
	}
	type dot struct {
		A torch.Tensor `param:"a.b"`
	}
	type empty struct {
		A torch.Tensor `param:""`
	}
	type both struct {
		A torch.Tensor `param:"a" buffer:"b"`
	}
	type notTensor struct {
		A float64 `param:"a"`
	}
	type tensorList struct {
		A []torch.Tensor `param:"a"`
	}
	type notModule struct {
		A int `module:"a"`
	}
	type tensorModule struct {
		A torch.Tensor `module:"a"`
	}
	type option struct {
		A torch.Tensor `param:"a,optional"`
	}
	type byValue struct {
		A any `module:"a"`
	}
	loop := &cyclic{W: nn.Parameter(torch.Ones(1))}
	loop.Next = loop
	own := &mutual{Fc: small()}
	own.parent = own
	if got := names(nn.Params(own)); len(got) != 1 {
		t.Errorf("a module with a field for its parent has the parameters %q, want its own only", got)
	}

	tests := []struct {
		name   string
		module any
		want   []string
	}{
		{"nil is no module", nil, []string{"the module is nil"}},
		{"a nil pointer is no module", (*nn.Linear)(nil), []string{"the module is nil"}},
		{"a number is no module", 7, []string{"the module is a int"}},
		{"a tensor is no module", torch.Ones(1), []string{"is a torch.Tensor, not a module"}},
		{"a copy is no module", nn.Linear{}, []string{"nn.Linear by value", "use a pointer"}},
		{"a copy in an interface is no module", &byValue{nn.Linear{}}, []string{`the module "a"`,
			"nn.Linear by value"}},
		{"a layer without a tag is not forgotten", &noTag{small()}, []string{"noTag, field Fc", `module:"fc"`,
			`module:"-"`}},
		{"a list of layers without a tag is not forgotten", &noTagList{}, []string{"field Layers holds parameters"}},
		{"parameters that are not fields are not forgotten", &noTagRNN{}, []string{"field RNN holds parameters"}},
		{"not in a value either", &noTagValue{}, []string{"field RNN holds parameters"}},
		{"a layer with a mode is not forgotten", &noTagDropout{Fc: small()}, []string{"field Drop depends on the mode",
			`module:"drop"`}},
		{"nor a list of them", &noTagRReLUs{}, []string{"field Acts depends on the mode"}},
		{"a tagged field is exported", &unexported{small()}, []string{"field fc has a tag but is not exported"}},
		{"a name is used once", &twice{}, []string{"field B", `"w" is already that of A`}},
		{"a name is used once with embedded structs", &embedded{}, []string{"field Mine",
			`"shared" is already that of Shared`}},
		{"a name has no dot", &dot{}, []string{`"a.b"`, "must not be empty nor have a dot"}},
		{"a name is not empty", &empty{}, []string{"must not be empty"}},
		{"a field is one thing", &both{}, []string{"has the tags param and buffer"}},
		{"a parameter is a tensor", &notTensor{}, []string{"field A is a float64", "a param is a torch.Tensor"}},
		{"a list of parameters needs ParamLister", &tensorList{}, []string{"ParamLister"}},
		{"a number cannot be a module", &notModule{}, []string{"field A is a int; a module is"}},
		{"a tensor cannot be a module", &tensorModule{}, []string{"field A is a torch.Tensor; a module is"}},
		{"options belong to buffers", &option{}, []string{`"optional" is no option of the tag param`}},
		{"keys have no dot", map[string]nn.Layer{"a.b": small()}, []string{`the key "a.b"`}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := torch.Try(func() { nn.Params(test.module) })
			if te := (*torch.Error)(nil); !errors.As(err, &te) {
				t.Fatalf("Params(%T) gives %v, want a *torch.Error", test.module, err)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("Params(%T): %v\nwant it to say %q", test.module, err, want)
				}
			}
		})
	}
	t.Run("a module that contains itself has no state", func(t *testing.T) {
		if err := torch.Try(func() { nn.StateDict(loop) }); err == nil || !strings.Contains(err.Error(),
			`the module "next" contains itself`) {
			t.Errorf("got %v", err)
		}
		if got := names(nn.Params(loop)); len(got) != 1 {
			t.Errorf("Params lists %q, want w once, as PyTorch does", got)
		}
	})
}

func TestSetTrainingReachesEveryModule(t *testing.T) {
	testenv.RequireTorch(t)
	deep := nn.NewDropout(0.5)
	lstm := nn.NewLSTM(2, 2, nil)
	model := struct {
		RNN  *nn.LSTM       `module:"rnn"`
		Rest []nn.Layer     `module:"rest"`
		Norm nn.BatchNorm2d `module:"norm"`
	}{lstm, []nn.Layer{nn.Sequential{deep}}, *nn.NewBatchNorm2d(2, nil)}
	for _, on := range []bool{false, true} {
		nn.SetTraining(&model, on)
		if deep.Training() != on || lstm.Training() != on || model.Norm.Training() != on {
			t.Errorf("after SetTraining(%t): dropout %t, lstm %t, norm %t", on, deep.Training(), lstm.Training(),
				model.Norm.Training())
		}
	}
}
