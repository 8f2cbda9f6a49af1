package pickle

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/gotrainer/gotrainer/safetensors"
)

// dtype is the type of a storage's elements. Raw bytes have no safetensors type.
type dtype struct {
	file safetensors.DType
	size int64
	name string // PyTorch's name
}

// dtypes holds PyTorch's dtypes by their names in the module torch. Tensors of a dtype without a
// safetensors type are refused.
var dtypes = map[string]dtype{}

// storages holds the dtypes of the typed storages, such as "FloatStorage".
var storages = map[string]dtype{}

func init() {
	for _, d := range []struct {
		names   string
		storage string
		file    safetensors.DType
		size    int64
	}{
		{"float32 float", "FloatStorage", safetensors.F32, 4},
		{"float64 double", "DoubleStorage", safetensors.F64, 8},
		{"float16 half", "HalfStorage", safetensors.F16, 2},
		{"bfloat16", "BFloat16Storage", safetensors.BF16, 2},
		{"int64 long", "LongStorage", safetensors.I64, 8},
		{"int32 int", "IntStorage", safetensors.I32, 4},
		{"int16 short", "ShortStorage", safetensors.I16, 2},
		{"int8", "CharStorage", safetensors.I8, 1},
		{"uint8", "ByteStorage", safetensors.U8, 1},
		{"uint16", "", safetensors.U16, 2},
		{"uint32", "", safetensors.U32, 4},
		{"uint64", "", safetensors.U64, 8},
		{"bool", "BoolStorage", safetensors.Bool, 1},
		{"complex64 cfloat", "ComplexFloatStorage", safetensors.C64, 8},
		{"complex128 cdouble", "ComplexDoubleStorage", 0, 16},
		{"float8_e5m2", "", safetensors.F8E5M2, 1},
		{"float8_e4m3fn", "", safetensors.F8E4M3, 1},
		{"float8_e5m2fnuz", "", safetensors.F8E5M2FNUZ, 1},
		{"float8_e4m3fnuz", "", safetensors.F8E4M3FNUZ, 1},
		{"float8_e8m0fnu", "", safetensors.F8E8M0, 1},
	} {
		names := strings.Fields(d.names)
		t := dtype{d.file, d.size, names[0]}
		for _, name := range names {
			dtypes[name] = t
		}
		if d.storage != "" {
			storages[d.storage] = t
		}
	}
}

// The names that may be called. Each builds a value of this package.
const (
	orderedDict      Name = "collections.OrderedDict"
	rebuildTensor    Name = "torch._utils._rebuild_tensor"
	rebuildTensorV2  Name = "torch._utils._rebuild_tensor_v2"
	rebuildTensorV3  Name = "torch._utils._rebuild_tensor_v3"
	rebuildParameter Name = "torch._utils._rebuild_parameter"
	torchSize        Name = "torch.Size"
	torchDevice      Name = "torch.device"
	untypedStorage   Name = "torch.storage.UntypedStorage"
)

// allowed reports whether a pickle may use a name.
func allowed(name Name) bool {
	switch name {
	case orderedDict, rebuildTensor, rebuildTensorV2, rebuildTensorV3, rebuildParameter, torchSize, torchDevice,
		untypedStorage, reconstructArray, reconstructArrayOld, ndarray, numpyDType, encodeText,
		emptyBytes:
		return true
	}
	short, ok := strings.CutPrefix(string(name), "torch.")
	if !ok {
		return false
	}
	_, isType := dtypes[short]
	_, isStorage := storages[short]
	return isType || isStorage
}

// persistent makes a storage from the persistent id ("storage", type, key, location, numel). In the
// older format, None or the storage of which it is a view follows.
func (m *machine) persistent() error {
	items, err := m.pop(1)
	if err != nil {
		return err
	}
	id, ok := items[0].(Tuple)
	if ok && m.a.legacy != nil && len(id) == 6 && id[5] == nil {
		id = id[:5]
	}
	if !ok || len(id) != 5 || id[0] != "storage" {
		return fmt.Errorf("a reference is a %s; want a tuple of storage, its type, key, location and size",
			describe(items[0]))
	}
	kind, ok1 := id[1].(Name)
	key, ok2 := id[2].(string)
	count, ok3 := id[4].(int64)
	if !ok1 || !ok2 || !ok3 || count < 0 {
		return fmt.Errorf("a storage has type %s, key %s and size %s; want a name, a str and an int that is not negative",
			describe(id[1]), describe(id[2]), describe(id[4]))
	}
	s := storage{key: key, name: m.a.root + "/data/" + key}
	if m.a.legacy != nil {
		s.name = "storage " + key
	}
	if kind == untypedStorage {
		s.dtype = dtype{size: 1}
	} else if s.dtype, ok = storages[strings.TrimPrefix(string(kind), "torch.")]; !ok {
		return fmt.Errorf("a storage has the type %s", kind)
	}
	if count > math.MaxInt64/s.dtype.size {
		return fault(ErrMalformed, s.name, "the pickle counts %d elements of %d bytes", count, s.dtype.size)
	}
	if err := m.a.holds(s, count, m.spent); err != nil {
		return err
	}
	s.bytes = count * s.dtype.size
	if err := m.spent.take(160 + len(s.name)); err != nil {
		return err
	}
	return m.push(s)
}

// reduce calls an allowed name.
func (m *machine) reduce() error {
	items, err := m.pop(2)
	if err != nil {
		return err
	}
	f, ok1 := items[0].(Name)
	args, ok2 := items[1].(Tuple)
	if !ok1 || !ok2 {
		return fault(ErrForbidden, describe(items[0]), "it is called with a %s", describe(items[1]))
	}
	if len(args) > 0 && f == orderedDict {
		if pairs, ok := args[0].(*List); ok {
			if err := m.spent.takeItems(&Dict{}, len(pairs.Items)); err != nil {
				return err
			}
		}
	}
	v, err := call(f, args)
	if err != nil {
		return err
	}
	size := 72
	switch v := v.(type) {
	case *Tensor:
		m.made++
		size = 240 + 16*len(v.Shape)
	case []byte:
		size = 32 + 2*len(v) // the string and the bytes decoded from it
	}
	if err := m.spent.take(size); err != nil {
		return err
	}
	return m.push(v)
}

func call(f Name, args Tuple) (any, error) {
	switch f {
	case orderedDict:
		return newDict(args)
	case rebuildTensor:
		return newTensor(args, 4, 4)
	case rebuildTensorV2:
		return newTensor(args, 6, 7)
	case rebuildTensorV3:
		return newTensor(args, 7, 8)
	case rebuildParameter:
		if len(args) == 3 {
			if t, ok := args[0].(*Tensor); ok {
				return t, nil
			}
		}
		return nil, fmt.Errorf("%s gets %d values; want a tensor, a bool and hooks", f, len(args))
	case torchSize:
		if len(args) == 1 {
			return args[0], nil
		}
	case torchDevice:
		return f, nil
	case encodeText, emptyBytes, numpyDType, reconstructArray, reconstructArrayOld:
		return callNumPy(f, args)
	}
	return nil, fault(ErrForbidden, string(f), "it is called with %d values", len(args))
}

// newDict makes an OrderedDict, empty or from a list of pairs.
func newDict(args Tuple) (any, error) {
	d := &Dict{Ordered: true}
	if len(args) == 0 {
		return d, nil
	}
	pairs, ok := args[0].(*List)
	if !ok || len(args) != 1 {
		return nil, fmt.Errorf("%s gets %d values; want none or a list of pairs", orderedDict, len(args))
	}
	for _, item := range pairs.Items {
		var pair []any
		switch p := item.(type) {
		case Tuple:
			pair = p
		case *List:
			pair = p.Items
		}
		if len(pair) != 2 {
			return nil, fmt.Errorf("%s gets a %s; want a pair", orderedDict, describe(item))
		}
		if err := d.set(pair[0], pair[1]); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// newTensor makes a tensor from (storage, offset, size, stride, requires_grad, hooks, [dtype,]
// [metadata]).
func newTensor(args Tuple, least, most int) (any, error) {
	if len(args) < least || len(args) > most {
		return nil, fmt.Errorf("a tensor is made of %d values; want %d to %d", len(args), least, most)
	}
	s, ok1 := args[0].(storage)
	offset, ok2 := args[1].(int64)
	shape, ok3 := ints(args[2])
	strides, ok4 := ints(args[3])
	if !ok1 || !ok2 || !ok3 || !ok4 || len(shape) != len(strides) {
		return nil, fmt.Errorf("a tensor is made of %s, %s, %s and %s; want a storage, an offset, sizes and as many "+
			"strides", describe(args[0]), describe(args[1]), describe(args[2]), describe(args[3]))
	}
	if len(args) == most && least > 4 {
		if marks, ok := args[most-1].(*Dict); args[most-1] != nil && (!ok || len(marks.Keys) > 0) {
			return nil, fault(ErrDType, "", "a view that is conjugated or negated; save its resolve_conj().resolve_neg()")
		}
	}
	t := &Tensor{Shape: shape, strides: strides, storage: s}
	kind := s.dtype
	if least == 7 {
		name, _ := args[6].(Name)
		var known bool
		if kind, known = dtypes[strings.TrimPrefix(string(name), "torch.")]; !known {
			return nil, fmt.Errorf("a tensor has %s for a dtype", describe(args[6]))
		}
	}
	if kind.file == 0 {
		return nil, fault(ErrDType, "", "%s", cmp.Or(kind.name, "bytes without a dtype"))
	}
	t.DType = kind.file
	return t, t.check(offset)
}

func ints(v any) ([]int64, bool) {
	t, ok := v.(Tuple)
	if !ok {
		return nil, false
	}
	list := make([]int64, len(t))
	for i, item := range t {
		n, ok := item.(int64)
		if !ok || n < 0 {
			return nil, false
		}
		list[i] = n
	}
	return list, true
}

// build sets the state of an object. It is allowed for an OrderedDict, whose attributes (the
// versions of a state dict) are ignored, and for NumPy arrays and dtypes.
func (m *machine) build() error {
	items, err := m.pop(1)
	if err != nil {
		return err
	}
	target, err := m.top()
	if err != nil {
		return err
	}
	switch target := target.(type) {
	case *Dict:
	case *Array:
		return target.build(items[0])
	case *arrayType:
		return target.build(items[0])
	default:
		return fault(ErrForbidden, describe(target), "the pickle sets attributes of it")
	}
	if _, ok := items[0].(*Dict); !ok {
		return fmt.Errorf("the attributes are a %s; want a dict", describe(items[0]))
	}
	return nil
}
