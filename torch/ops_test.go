package torch_test

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

// opCase is one call in testdata/ops.json; ops.py describes the fields.
type opCase struct {
	Op, Aten   string
	Args, Out  []*opArg
	Leaves     []int
	Cotangents []string
	Grads      map[string]string
	Go         *opCall
	Seed       *uint64
	Rtol       float64
	ShapeOnly  bool
	// Recorded with deterministic algorithms.
	Deterministic bool
	number        int
	golden        *golden.File
}

// opCall is the typed form of a case.
type opCall struct {
	Name    string
	On      *int
	Options map[string]*opArg
	Args    []*opArg
	Ranges  [][]*int64
}

// opArg is one argument or result; nil stands for None.
type opArg struct {
	Tensor    *string
	Tensors   []*string
	Ints      *[]int64
	Int       *int64
	Float     *string
	Bool      *bool
	String    *string
	DType     *string
	Device    *string
	Generator *uint64
	Struct    map[string]*opArg
	Arg       []int // index of an argument of the case
}

func loadOpCases(t *testing.T) []*opCase {
	var file struct{ Cases []*opCase }
	readJSON(t, "testdata/ops.json", &file)
	g := golden.Load(t, "testdata/ops.safetensors")
	for i, c := range file.Cases {
		c.number, c.golden = i, g
	}
	return file.Cases
}

func (c *opCase) name() string { return fmt.Sprintf("%s#%d", c.Op, c.number) }

// inPlace reports whether the operator changes its first argument.
func (c *opCase) inPlace() bool {
	base, _, _ := strings.Cut(strings.TrimPrefix(c.Aten, "aten::"), ".")
	return strings.HasSuffix(base, "_")
}

// arguments returns new arguments: values for the call, and the leaves by their index.
func (c *opCase) arguments() (values []any, leaves map[int]torch.Tensor) {
	leaves = map[int]torch.Tensor{}
	for i, a := range c.Args {
		v := a.value(c)
		if x, ok := v.(torch.Tensor); ok {
			x = x.Clone()
			if slices.Contains(c.Leaves, i) {
				leaves[i] = x.RequiresGrad()
			}
			if v = any(x); c.inPlace() && i == 0 {
				v = x.Clone()
			}
		}
		if list, ok := v.([]torch.Tensor); ok {
			for j, x := range list {
				if x.Defined() {
					list[j] = x.Clone()
				}
			}
		}
		values = append(values, v)
	}
	return values, leaves
}

var dtypeByName = func() map[string]torch.DType {
	m := map[string]torch.DType{}
	for d := torch.Uint8; d <= torch.BFloat16; d++ {
		m[d.String()] = d
	}
	return m
}()

// value returns the argument in the form that Call takes.
func (a *opArg) value(c *opCase) any {
	switch {
	case a == nil:
		return nil
	case a.Tensor != nil:
		return c.golden.Tensor(*a.Tensor)
	case a.Tensors != nil:
		list := make([]torch.Tensor, len(a.Tensors))
		for i, k := range a.Tensors {
			if k != nil {
				list[i] = c.golden.Tensor(*k)
			}
		}
		return list
	case a.Ints != nil:
		return *a.Ints
	case a.Int != nil:
		return *a.Int
	case a.Float != nil:
		f, err := strconv.ParseFloat(*a.Float, 64)
		if err != nil {
			panic(err)
		}
		return f
	case a.Bool != nil:
		return *a.Bool
	case a.String != nil:
		return *a.String
	case a.DType != nil:
		return dtypeByName[*a.DType]
	case a.Device != nil:
		d, err := torch.ParseDevice(*a.Device)
		if err != nil {
			panic(err)
		}
		return d
	case a.Generator != nil:
		return torch.NewGenerator(*a.Generator)
	}
	panic(fmt.Sprintf("an argument of no known kind: %+v", *a))
}

// functions are the package's functions that cases call. Methods are found by reflection.
var functions = map[string]any{
	"Where": torch.Where, "Cat": torch.Cat, "Stack": torch.Stack, "Empty": torch.Empty, "Zeros": torch.Zeros,
	"Ones": torch.Ones,
	"Full": torch.Full, "Eye": torch.Eye, "Arange": torch.Arange, "Linspace": torch.Linspace, "Rand": torch.Rand,
	"Randn":   torch.Randn,
	"RandInt": torch.RandInt, "RandPerm": torch.RandPerm,
	"Einsum": torch.Einsum, "HStack": torch.HStack, "VStack": torch.VStack, "BlockDiag": torch.BlockDiag,
	"Meshgrid": torch.Meshgrid,
	"Complex":  torch.Complex, "Polar": torch.Polar,
}

// typed runs the case through the Go method or function with its name.
func (c *opCase) typed(values []any) ([]any, error) {
	call := c.Go
	if call == nil {
		call = &opCall{Name: c.Op}
		if _, isFunction := functions[c.Op]; !isFunction {
			call.On = new(int)
		}
	}
	var f reflect.Value
	switch {
	case call.Options != nil:
		o := reflect.New(reflect.TypeFor[torch.TensorOptions]()).Elem()
		fillStruct(c, o, call.Options, values)
		f = o.MethodByName(call.Name)
	case call.On != nil:
		f = reflect.ValueOf(values[*call.On]).MethodByName(call.Name)
	default:
		f = reflect.ValueOf(functions[call.Name])
	}
	if !f.IsValid() {
		return nil, fmt.Errorf("package torch has no %s", call.Name)
	}
	var args []any
	switch {
	case call.Ranges != nil:
		for _, r := range call.Ranges {
			args = append(args, index(r))
		}
	case c.Go != nil:
		for _, a := range call.Args {
			args = append(args, c.resolve(a, values))
		}
	case call.On != nil:
		args = values[1:]
	default:
		args = values
	}
	in, err := convertAll(args, f.Type())
	if err != nil {
		return nil, fmt.Errorf("%s%v: %w", call.Name, f.Type(), err)
	}
	var results []any
	for _, r := range f.Call(in) {
		results = append(results, r.Interface())
	}
	return results, nil
}

// resolve returns an argument of a typed call, which may refer to an argument of the case.
func (c *opCase) resolve(a *opArg, values []any) any {
	switch {
	case a != nil && len(a.Arg) == 1:
		return values[a.Arg[0]]
	case a != nil && len(a.Arg) == 2:
		return values[a.Arg[0]].([]torch.Tensor)[a.Arg[1]]
	case a != nil && a.Struct != nil:
		return a
	}
	return a.value(c)
}

func index(r []*int64) torch.Index {
	switch {
	case len(r) == 1:
		return torch.All
	case r[0] == nil && r[1] == nil:
		return torch.RangeStep(0, 1<<60, *r[2])
	}
	panic("a range of no known form")
}

func fillStruct(c *opCase, s reflect.Value, fields map[string]*opArg, values []any) {
	for name, a := range fields {
		v, err := convert(c.resolve(a, values), s.FieldByName(name).Type())
		if err != nil {
			panic(err)
		}
		s.FieldByName(name).Set(v)
	}
}

// convertAll converts arguments to the types of a function's parameters. A list becomes the
// variadic ones.
func convertAll(args []any, f reflect.Type) ([]reflect.Value, error) {
	if f.IsVariadic() && len(args) > 0 {
		if list, ok := args[len(args)-1].([]int64); ok {
			args = slices.Clone(args[:len(args)-1])
			for _, v := range list {
				args = append(args, v)
			}
		}
	}
	if !f.IsVariadic() && len(args) > f.NumIn() {
		args = args[:f.NumIn()] // arguments that the typed form leaves at their defaults
	}
	var in []reflect.Value
	for i, a := range args {
		p := f.In(min(i, f.NumIn()-1))
		if f.IsVariadic() && i >= f.NumIn()-1 {
			p = p.Elem()
		}
		v, err := convert(a, p)
		if err != nil {
			return nil, fmt.Errorf("argument %d: %w", i, err)
		}
		in = append(in, v)
	}
	return in, nil
}

func convert(a any, to reflect.Type) (reflect.Value, error) {
	if s, ok := a.(*opArg); ok {
		v := reflect.New(to).Elem()
		fillStruct(&opCase{}, v, s.Struct, nil)
		return v, nil
	}
	if a == nil {
		if to == reflect.TypeFor[torch.Index]() {
			return reflect.ValueOf(&torch.All).Elem(), nil
		}
		return reflect.Zero(to), nil
	}
	v := reflect.ValueOf(a)
	if v.Type().AssignableTo(to) {
		return v, nil
	}
	if to.Kind() == reflect.Pointer { // an optional number
		p := reflect.New(to.Elem())
		element, err := convert(a, to.Elem())
		if err == nil {
			p.Elem().Set(element)
		}
		return p, err
	}
	switch to.Kind() {
	case reflect.Int64, reflect.Int32, reflect.Int, reflect.Float64:
		if v.CanInt() || v.CanFloat() {
			return v.Convert(to), nil
		}
	}
	return v, fmt.Errorf("%T does not fit %v", a, to)
}

// flatten returns all results in one list.
func flatten(results []any) (flat []any) {
	for _, r := range results {
		if list, ok := r.([]torch.Tensor); ok {
			for _, x := range list {
				flat = append(flat, x)
			}
		} else {
			flat = append(flat, r)
		}
	}
	return flat
}

// check compares results and gradients with PyTorch's.
func (c *opCase) check(t *testing.T, results []any, leaves map[int]torch.Tensor) {
	results = flatten(results)
	if len(results) != len(c.Out) {
		t.Fatalf("%d results, want %d", len(results), len(c.Out))
	}
	if c.Op == "SVD" {
		alignSigns(results, c.Out, c)
	}
	var roots []torch.Tensor
	for i, r := range results {
		want := c.Out[i].value(c)
		w, isTensor := want.(torch.Tensor)
		if !isTensor {
			goldencount.Of(t).Compare(number(r) == number(want))
			if number(r) != number(want) {
				t.Errorf("result %d is %v, want %v", i, r, want)
			}
			continue
		}
		got := r.(torch.Tensor)
		if got.NeedsGrad() {
			roots = append(roots, got)
		}
		c.compare(t, fmt.Sprintf("result %d", i), got, w)
	}
	if c.Cotangents == nil {
		if len(roots) > 0 {
			t.Errorf("%d results have a history, want none", len(roots))
		}
		return
	}
	o := torch.BackwardOptions{}
	for _, k := range c.Cotangents {
		o.Gradients = append(o.Gradients, c.golden.Tensor(k))
	}
	torch.Backward(o, roots...)
	for i, x := range leaves {
		key, want := c.Grads[fmt.Sprint(i)]
		if g := x.Grad(); g.Defined() != want {
			t.Errorf("argument %d has a gradient: %t, want %t", i, g.Defined(), want)
		} else if want {
			c.compare(t, fmt.Sprintf("gradient of argument %d", i), g, c.golden.Tensor(key))
		}
	}
}

func (c *opCase) compare(t *testing.T, what string, got, want torch.Tensor) {
	t.Helper()
	if got.DType().IsComplex() {
		got = got.ResolveConj()
	}
	switch {
	case c.ShapeOnly:
		golden.Bits(t, what, got.ZerosLike(), want.ZerosLike())
	case c.Rtol == 0:
		golden.Recorded(t, what, got, want)
	default:
		largest := 0.0
		if want.Numel() > 0 {
			largest = want.Abs().Max().Item()
		}
		// Linear algebra is accurate only relative to the size of the whole result.
		golden.Close(t, what, got, want, 0, c.Rtol*largest)
	}
}

// alignSigns flips singular vectors that have the opposite sign of the recorded ones. Both signs
// are correct, and which one an algorithm returns differs between libraries.
func alignSigns(got []any, want []*opArg, c *opCase) {
	u, vh := got[0].(torch.Tensor), got[2].(torch.Tensor)
	signs := u.Mul(want[0].value(c).(torch.Tensor)).SumDim([]int64{0}, false, torch.Float32).Sign()
	got[0], got[2] = u.Mul(signs), vh.Mul(signs.Unsqueeze(1))
}

func number(v any) float64 {
	switch v := v.(type) {
	case bool:
		if v {
			return 1
		}
		return 0
	case int64:
		return float64(v)
	case float64:
		return v
	}
	panic(fmt.Sprintf("%T is not a number", v))
}

func TestOperatorsGivePyTorchsResultsAndGradients(t *testing.T) {
	testenv.RequireTorch(t)
	for _, c := range loadOpCases(t) {
		run := func(road string, call func(values []any) ([]any, error)) {
			t.Run(c.name()+"/"+road, func(t *testing.T) {
				if !c.ShapeOnly { // without values there is nothing to compare
					goldencount.Start(t, "operators", c.name())
				}
				if c.Deterministic {
					torch.UseDeterministicAlgorithms(true, false)
					defer torch.UseDeterministicAlgorithms(false, false)
				}
				torch.Scope(func() {
					values, leaves := c.arguments()
					if c.Seed != nil {
						torch.ManualSeed(*c.Seed)
					}
					results, err := call(values)
					if err != nil {
						t.Fatal(err)
					}
					c.check(t, results, leaves)
				})
			})
		}
		run("Call", func(values []any) ([]any, error) { return torch.CallAny(c.Aten, values...), nil })
		run("typed", c.typed)
	}
}

// opsTable reads the names of cgotorch/ops.txt; raw ones have no generated method.
func opsTable(t *testing.T) (names []string, raw map[string]bool) {
	b, err := os.ReadFile("../cgotorch/ops.txt")
	if err != nil {
		t.Fatal(err)
	}
	raw = map[string]bool{}
	for line := range strings.Lines(string(b)) {
		spec, _, _ := strings.Cut(line, "--")
		if words := strings.Fields(spec); len(words) > 1 && words[0][0] != '#' {
			names = append(names, words[0])
			raw[words[0]] = slices.Contains(words[2:], "raw")
		}
	}
	return names, raw
}

func TestEveryOperatorOfTheTableHasACase(t *testing.T) {
	cases := map[string]bool{}
	var file struct{ Cases []opCase }
	readJSON(t, "testdata/ops.json", &file)
	for _, c := range file.Cases {
		cases[c.Op] = true
	}
	names, _ := opsTable(t)
	if len(names) < 190 {
		t.Fatalf("ops.txt has %d operators; it was probably not read rightly", len(names))
	}
	for _, n := range names {
		if !cases[n] {
			t.Errorf("%s of ops.txt has no case in testdata/ops.py", n)
		}
		delete(cases, n)
	}
	for n := range cases {
		t.Errorf("the case %s names no operator of ops.txt", n)
	}
}

// testedElsewhere are the methods of Tensor that are not operators.
var testedElsewhere = strings.Fields(`Backward Bytes BytesInto Defined Device Dim DType FillFrom Format Free Grad Is
	IsContiguous IsLeaf IsStrided Keep NeedsGrad Numel PinMemory RegisterHook RegisterPostAccumulateGradHook RequiresGrad
	RetainGrad RetainsGrad SetData_ SetGrad SetRequiresGrad Shape Size Stride String ToDeviceNonBlocking WriteTo`)

func TestEveryMethodOfATensorIsTested(t *testing.T) {
	called := map[string]bool{}
	var file struct{ Cases []opCase }
	readJSON(t, "testdata/ops.json", &file)
	for _, c := range file.Cases {
		if c.Go == nil {
			called[c.Op] = true
		} else {
			called[c.Go.Name] = true
		}
	}
	for _, n := range testedElsewhere {
		called[n] = true
	}
	for i := range reflect.TypeFor[torch.Tensor]().NumMethod() {
		if n := reflect.TypeFor[torch.Tensor]().Method(i).Name; !called[n] {
			t.Errorf("Tensor.%s has no case in testdata/ops.py", n)
		}
	}
}
