package torch

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"unsafe"

	"github.com/gotrainer/gotrainer/cgotorch"
)

// Call runs any operator of libtorch by name, with arguments in the order of its schema. Trailing
// arguments that are left out take their defaults:
//
//	values := torch.Call("aten::topk", x, 2, -1)               // overload "" is the default
//	y := torch.Call("aten::clamp.Tensor", x, low, high)[0]
//
// An argument is a [Tensor] (undefined: None), []Tensor, a Go number, bool, string, []int64,
// []float64 (numbers of either kind where the schema says Scalar[]), []bool, [DType], [Device],
// *[Generator], or nil for None. Results are tensors; [CallAny] returns results of other types
// too. It panics with [*Error] if there is no such operator or if the arguments do not fit its
// schema, which the message quotes.
func Call(name string, args ...any) []Tensor {
	var c boxedCall
	c.run(name, args)
	ts := make([]Tensor, 0, c.count)
	for i := range c.results[:c.count] {
		switch v := &c.results[i]; v.Kind {
		case cgotorch.TensorValue:
			ts = append(ts, wrap(cgotorch.Tensor(v.Pointer), c.code))
		case cgotorch.TensorsValue:
			ts = append(ts, unbox(v, c.code).([]Tensor)...)
		case cgotorch.None: // an undefined tensor
			ts = append(ts, Tensor{})
		default:
			panic(&Error{Op: name, Code: ErrType, Msg: fmt.Sprintf("result %d is a %T and not a tensor: use CallAny", i,
				unbox(v, c.code))})
		}
	}
	return ts
}

// CallAny is [Call] for operators whose results are not all tensors. A result is an int64,
// float64, bool, []int64, []Tensor or nil.
func CallAny(name string, args ...any) []any {
	var c boxedCall
	c.run(name, args)
	out := make([]any, c.count)
	for i := range out {
		out[i] = unbox(&c.results[i], c.code)
	}
	return out
}

// boxedCall is one call of an operator. It lives on the stack, so that a call allocates nothing but
// its results on the heap.
type boxedCall struct {
	results [16]cgotorch.Value
	count   int64
	code    cgotorch.Code
}

func (c *boxedCall) run(name string, args []any) {
	load(name)
	handle := operator(name)
	var few [8]cgotorch.Value
	values := few[:0]
	for i, a := range args {
		v, err := box(name, a)
		if err != "" {
			panic(&Error{Op: name, Code: ErrType, Msg: fmt.Sprintf("argument %d: %s", i, err)})
		}
		values = append(values, v)
	}
	c.code = cgotorch.Call(handle, values, c.results[:], &c.count)
	if c.code < 0 && !writes(name) && reclaim(c.code) {
		c.code = cgotorch.Call(handle, values, c.results[:], &c.count)
	}
	if c.code < 0 {
		fail(name, c.code, tensorsOf(args)...)
	}
	runtime.KeepAlive(args)
}

// tensorsOf returns the tensors among args, including those in slices.
func tensorsOf(args []any) (ts []Tensor) {
	for _, a := range args {
		switch a := a.(type) {
		case Tensor:
			ts = append(ts, a)
		case []Tensor:
			ts = append(ts, a...)
		}
	}
	return ts
}

// Schema returns the signature of an operator: its arguments, their types and defaults.
func Schema(name string) string {
	load("Schema")
	s, code := cgotorch.SchemaOf(operator(name))
	check("Schema", code)
	return s
}

var operators sync.Map // name to handle

func operator(name string) int64 {
	if h, ok := operators.Load(name); ok {
		return h.(int64)
	}
	base, overload, _ := strings.Cut(name, ".")
	if !strings.Contains(base, "::") {
		panic(&Error{Op: name, Code: ErrValue, Msg: "the name of an operator has its namespace before it: aten::" +
			name})
	}
	var handle int64
	check(name, cgotorch.FindOperator(base, overload, &handle))
	operators.Store(name, handle)
	return handle
}

// writes reports whether an operator modifies one of its arguments, such as "aten::add_.Tensor" or
// "aten::add.out". Such an operator must not be retried.
func writes(name string) bool {
	base, overload, _ := strings.Cut(name, ".")
	return strings.HasSuffix(base, "_") || strings.Contains(overload, "out")
}

func slice[T any](kind int64, s []T) cgotorch.Value {
	return cgotorch.Value{Kind: kind, Count: int64(len(s)), Pointer: unsafe.Pointer(unsafe.SliceData(s))}
}

// kindOfScalar maps the kind of a scalar to the kind of a boxed value.
var kindOfScalar = [...]int64{
	cgotorch.ScalarInt: cgotorch.IntValue, cgotorch.ScalarDouble: cgotorch.DoubleValue,
	cgotorch.ScalarBool: cgotorch.BoolValue,
}

func box(op string, a any) (v cgotorch.Value, err string) {
	switch a := a.(type) {
	case nil:
		return cgotorch.Value{Kind: cgotorch.None}, ""
	case Tensor:
		if !a.Defined() {
			return cgotorch.Value{Kind: cgotorch.None}, ""
		}
		return cgotorch.Value{Kind: cgotorch.TensorValue, Pointer: unsafe.Pointer(a.ptr(op))}, ""
	case []Tensor:
		return slice(cgotorch.TensorsValue, pointers(op, a)), ""
	case []int64:
		return slice(cgotorch.IntsValue, a), ""
	case []float64:
		return slice(cgotorch.DoublesValue, a), ""
	case []bool:
		return slice(cgotorch.BoolsValue, a), ""
	case string:
		return cgotorch.Value{Kind: cgotorch.StringValue, Count: int64(len(a)),
			Pointer: unsafe.Pointer(unsafe.StringData(a))}, ""
	case DType:
		return cgotorch.Value{Kind: cgotorch.DTypeValue, Number: int64(a.code())}, ""
	case Device:
		return cgotorch.Value{Kind: cgotorch.DeviceValue, Number: int64(a.code())}, ""
	case *Generator:
		if a.pointer() == nil {
			return cgotorch.Value{Kind: cgotorch.None}, ""
		}
		return cgotorch.Value{Kind: cgotorch.GeneratorKind, Pointer: unsafe.Pointer(a.c)}, ""
	case int, int64, int32, int16, int8, uint8, float64, float32, bool:
		s := scalar(op, a)
		return cgotorch.Value{Kind: kindOfScalar[s.Kind], Number: s.Bits}, ""
	}
	return v, "a " + typeName(a) + " cannot be given to an operator; want a tensor, number, bool, string, dtype, " +
		"device, generator, a list of them or nil"
}

func unbox(v *cgotorch.Value, code cgotorch.Code) any {
	switch v.Kind {
	case cgotorch.TensorValue:
		return wrap(cgotorch.Tensor(v.Pointer), code)
	case cgotorch.IntValue:
		return v.Number
	case cgotorch.DoubleValue:
		return math.Float64frombits(uint64(v.Number))
	case cgotorch.BoolValue:
		return v.Number != 0
	case cgotorch.IntsValue:
		return v.TakeInts()
	case cgotorch.TensorsValue:
		handles := v.TakeTensors()
		ts := make([]Tensor, len(handles))
		for i, c := range handles {
			ts[i] = wrap(c, code)
		}
		return ts
	}
	return nil
}
