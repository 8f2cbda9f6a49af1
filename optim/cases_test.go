package optim_test

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// settingsByName are all builders. A golden file names the one that reproduces it.
var settingsByName = map[string]optim.Builder{}

func init() {
	for _, b := range []optim.Builder{
		optim.AdamW{}, optim.Adam{}, optim.SGD{}, optim.Adamax{}, optim.NAdam{}, optim.RAdam{}, optim.Adagrad{},
		optim.Adadelta{}, optim.RMSprop{},
		optim.Rprop{}, optim.ASGD{}, optim.Adafactor{}, optim.AdafactorHF{}, optim.Muon{}, optim.Lion{}, optim.LAMB{},
		optim.GaLoreAdamW{}, optim.GaLoreAdafactor{},
	} {
		settingsByName[reflect.TypeOf(b).Name()] = b
	}
}

// fileCase is a golden file of testdata/golden.py, decoded according to its metadata.
type fileCase struct {
	name    string
	file    *golden.File
	builder optim.Builder
	peak    float64
	params  []string
	dtypes  map[string]torch.DType
	lowRank []string
}

func fileCases(t *testing.T) (cases []fileCase) {
	t.Helper()
	paths, err := filepath.Glob("testdata/golden/*.safetensors")
	if err != nil || len(paths) < 90 {
		t.Fatalf("there are %d golden files (%v), want the files that testdata/golden.py writes", len(paths), err)
	}
	for _, path := range paths {
		f := golden.Load(t, path)
		c := fileCase{name: strings.TrimSuffix(filepath.Base(path), ".safetensors"), file: f,
			dtypes: map[string]torch.DType{}}
		c.builder = decodeBuilder(t, f.Metadata["optimizer"], f.Metadata["options"])
		if f.Metadata["peak"] != "" {
			if c.peak, err = strconv.ParseFloat(f.Metadata["peak"], 64); err != nil {
				t.Fatal(err)
			}
		}
		var dtypes map[string]string
		decode(t, f.Metadata["params"], &c.params)
		decode(t, f.Metadata["dtypes"], &dtypes)
		decode(t, f.Metadata["low_rank"], &c.lowRank)
		for name, d := range dtypes {
			c.dtypes[name] = map[string]torch.DType{"float64": torch.Float64, "bfloat16": torch.BFloat16}[d]
		}
		cases = append(cases, c)
	}
	return cases
}

func decode(t *testing.T, text string, to any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// decodeBuilder returns the builder with the given name, with its fields set from JSON under their
// Go names.
func decodeBuilder(t *testing.T, name, options string) optim.Builder {
	t.Helper()
	empty, ok := settingsByName[name]
	if !ok {
		t.Fatalf("there is no optimizer %q", name)
	}
	settings := reflect.New(reflect.TypeOf(empty))
	decode(t, options, settings.Interface())
	return settings.Elem().Interface().(optim.Builder)
}

// start makes the parameters and the optimizer of a case.
func (c fileCase) start(t *testing.T, inputs *golden.File) *run {
	t.Helper()
	r := &run{t: t, g: inputs, dtypes: c.dtypes, params: map[string]torch.Tensor{}}
	groups := []optim.Group{{}, {LowRank: true}}
	for _, name := range c.params {
		p := r.cast(name, inputs.Tensor("init."+name)).Clone().SetRequiresGrad(name != "frozen")
		r.params[name] = p
		g := &groups[0]
		if slices.Contains(c.lowRank, name) {
			g = &groups[1]
		}
		g.Params = append(g.Params, torch.Named{Name: name, Tensor: p})
	}
	if len(groups[1].Params) == 0 {
		groups = groups[:1]
	}
	var err error
	if r.opt, err = c.builder.Build(groups); err != nil {
		t.Fatal(err)
	}
	return r
}

// updates makes the updates from..to with the rates of the case.
func (c fileCase) updates(r *run, from, to int) {
	for k := from; k < to; k++ {
		torch.Scope(func() {
			for name, p := range r.params {
				p.SetGrad(r.gradient(k, name))
			}
			r.opt.Step(c.peak * (float64(updates-k) / updates))
			r.opt.ZeroGrad()
		})
	}
}

func (c fileCase) compare(r *run) {
	r.t.Helper()
	for p, tensor := range r.params {
		equal(r.t, "parameter "+p, tensor, c.file.Tensor("param/"+p))
	}
	var got, want []string
	for _, s := range r.opt.State() {
		got = append(got, s.Name)
		if key := "state/" + s.Name; c.file.Has(key) {
			equal(r.t, "state "+s.Name, s.Tensor, c.file.Tensor(key))
		}
	}
	for _, n := range c.file.Names() {
		if s, ok := strings.CutPrefix(n, "state/"); ok {
			want = append(want, s)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		r.t.Errorf("the states are %q, want %q", got, want)
	}
}

func TestEveryOptimizerRepeatsItsGoldenFile(t *testing.T) {
	testenv.RequireTorch(t)
	inputs := golden.Load(t, "testdata/inputs.safetensors")
	for _, c := range fileCases(t) {
		t.Run(c.name, func(t *testing.T) {
			goldencount.Start(t, "optimizers, 20 updates", "golden/"+c.name)
			r := c.start(t, inputs)
			c.updates(r, 0, updates)
			c.compare(r)
		})
	}
}

// A run that is saved and continued by a new optimizer must end where an uninterrupted run ends,
// for all kinds of state.
func TestEveryOptimizerResumesToTheBit(t *testing.T) {
	testenv.RequireTorch(t)
	inputs := golden.Load(t, "testdata/inputs.safetensors")
	for _, c := range fileCases(t) {
		for _, stop := range []int{2, 9} {
			t.Run(c.name+" after "+strconv.Itoa(stop), func(t *testing.T) {
				first, second := c.start(t, inputs), c.start(t, inputs)
				c.updates(first, 0, stop)
				for name, p := range second.params {
					torch.NoGrad(func() { p.Copy_(first.params[name]) })
				}
				if err := second.opt.LoadState(first.opt.State(), stop); err != nil {
					t.Fatal(err)
				}
				c.updates(first, stop, updates)
				c.updates(second, stop, updates)
				c.compare(second)
			})
		}
	}
}

func TestEveryOptimizerHasAGoldenFile(t *testing.T) {
	testenv.RequireTorch(t)
	seen := map[string]bool{}
	for _, c := range fileCases(t) {
		seen[reflect.TypeOf(c.builder).Name()] = true
	}
	for name := range settingsByName {
		if _, other := packagesByName[name]; !seen[name] && !other {
			t.Errorf("no golden file is of %s", name)
		}
	}
}
