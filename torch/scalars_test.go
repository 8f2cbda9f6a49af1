package torch_test

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

// pythonNumber parses a number as Python prints it, keeping its type.
func pythonNumber(t *testing.T, s string) any {
	t.Helper()
	if s == "True" {
		return true
	}
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return i
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestArithmeticWithNumbersIsPythonsInEveryDType(t *testing.T) {
	testenv.RequireTorch(t)
	g := golden.Load(t, "testdata/scalars.safetensors") // written by testdata/scalars.py
	compared := map[string]int{}
	for _, key := range g.Names() {
		parts := strings.SplitN(key, ".", 4) // dtype, shape, operator, number
		if len(parts) < 4 || strings.HasSuffix(key, ".grad") {
			continue
		}
		t.Run(key, func(t *testing.T) {
			goldencount.Start(t, "numbers", key)
			torch.Scope(func() {
				x := g.Tensor(parts[0] + "." + parts[1]).Clone()
				if parts[0] != "int64" {
					x = x.RequiresGrad()
				}
				method := reflect.ValueOf(x.Clone()).MethodByName(parts[2])
				if !method.IsValid() {
					t.Fatalf("package torch has no %s", parts[2])
				}
				y := method.Call([]reflect.Value{reflect.ValueOf(pythonNumber(t,
					parts[3]))})[0].Interface().(torch.Tensor)
				if want := g.Tensor(key); y.DType() != want.DType() {
					t.Fatalf("the result is %v, want %v", y.DType(), want.DType())
				}
				golden.Recorded(t, "result", y, g.Tensor(key))
				if y.NeedsGrad() {
					torch.Backward(torch.BackwardOptions{Gradients: []torch.Tensor{y.FullLike(0.75)}}, y)
					golden.Recorded(t, "gradient", x.Grad(), g.Tensor(key+".grad"))
				}
			})
			compared[parts[0]]++
		})
	}
	for _, dtype := range []string{"float16", "bfloat16", "float32", "float64", "int64"} {
		if compared[dtype] < 70 {
			t.Errorf("%d cases of %s, want at least 70", compared[dtype], dtype)
		}
	}
}

func TestCallTakesListsOfNumbers(t *testing.T) {
	testenv.RequireTorch(t)
	x := func() []torch.Tensor { return []torch.Tensor{torch.Ones(2), torch.Ones(2)} }
	for _, c := range []struct {
		name    string
		numbers any
		want    string
	}{
		{"floats", []float64{2.5, -1}, "[2.5 2.5] [-1 -1]"},
		{"integers", []int64{3, 4}, "[3 3] [4 4]"},
	} {
		ts := torch.Call("aten::_foreach_mul.ScalarList", x(), c.numbers)
		if got := fmt.Sprint(torch.Values[float32](ts[0]), torch.Values[float32](ts[1])); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
	ts := torch.Call("aten::_foreach_addcdiv.ScalarList", x(), x(), x(), []float64{1, 2})
	if got := torch.Values[float32](ts[1])[0]; got != 3 {
		t.Errorf("addcdiv with the number 2 gives %v, want 3", got)
	}
	for name, wrong := range map[string]any{"bools": []bool{true, false}, "tensors": x(), "one number": 2.5,
		"too few": []float64{1}} {
		err := torch.Try(func() { torch.Call("aten::_foreach_mul.ScalarList", x(), wrong) })
		if err == nil || !strings.Contains(err.Error(), "_foreach_mul.ScalarList") {
			t.Errorf("%s: got %v, want an error that names the operator", name, err)
		}
	}
}
