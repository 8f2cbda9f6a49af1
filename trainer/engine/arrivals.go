package engine

import (
	"fmt"
	"reflect"
	"slices"
	"unsafe"

	"github.com/gotrainer/gotrainer/torch"
)

// arrivals are batches whose data are on the device before [Input] asks for them, because they were
// sent ahead (Options.Prefetch) or belong to a set that is kept there (Options.DatasetOnDevice).
type arrivals []*arrival

// arrival is one of these batches.
type arrival struct {
	slices []slice
	tensor func(k int) torch.Tensor // returns slice k on the device, for use in the stream that computes
	free   func()
	used   bool
}

// take returns the tensor on the device for a slice of one of these batches.
func (a arrivals) take(s slice) (t torch.Tensor, ok bool) {
	for _, b := range slices.Backward(a) { // newest first, since a later batch may reuse the memory of a slice
		if k := slices.Index(b.slices, s); k >= 0 {
			t = b.tensor(k)
			b.used = true
			return t, true
		}
	}
	return t, false
}

func (a *arrivals) forget(which func(*arrival) bool) {
	*a = slices.DeleteFunc(*a, func(b *arrival) bool {
		if which(b) {
			b.free()
			return true
		}
		return false
	})
}

// slice is a slice of numbers in a batch, identified by its address.
type slice struct {
	at      unsafe.Pointer
	n       int
	element reflect.Type
}

func (s slice) bytes() []byte { return unsafe.Slice((*byte)(s.at), s.n*int(s.element.Size())) }

// pinned returns a copy of the slice in page-locked memory.
func (s slice) pinned() torch.Tensor { return sendable[s.element].pin(s) }

// sendable has the types of numbers that are sent to the device.
var sendable = map[reflect.Type]struct {
	dtype torch.DType
	pin   func(slice) torch.Tensor
}{
	reflect.TypeFor[float32](): {torch.Float32, pin[float32]},
	reflect.TypeFor[float64](): {torch.Float64, pin[float64]},
	reflect.TypeFor[int32]():   {torch.Int32, pin[int32]},
	reflect.TypeFor[int64]():   {torch.Int64, pin[int64]},
	reflect.TypeFor[uint8]():   {torch.Uint8, pin[uint8]},
	reflect.TypeFor[bool]():    {torch.Bool, pin[bool]},
}

func pin[T torch.Element](s slice) torch.Tensor {
	return torch.FromPinned(unsafe.Slice((*T)(s.at), s.n))
}

// maxDepth is the depth of structs and pointers to which slices are searched for.
const maxDepth = 8

// slicesOf returns the slices of numbers in the fields of a batch.
func slicesOf(batch any) []slice { return numbers(reflect.ValueOf(batch), nil, maxDepth) }

func numbers(v reflect.Value, all []slice, depth int) []slice {
	switch {
	case depth == 0:
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			all = numbers(v.Field(i), all, depth-1)
		}
	case v.Kind() == reflect.Pointer && !v.IsNil():
		all = numbers(v.Elem(), all, depth-1)
	case v.Kind() == reflect.Slice && v.Len() > 0:
		if _, ok := sendable[v.Type().Elem()]; ok {
			all = append(all, slice{v.UnsafePointer(), v.Len(), v.Type().Elem()})
		}
	}
	return all
}

// nameOf returns the path of slice k in a batch: "InputIDs.Values".
func nameOf(batch any, k int) string {
	name, v := "", reflect.ValueOf(batch)
	for depth := maxDepth; v.Kind() != reflect.Slice; depth-- {
		if v.Kind() == reflect.Pointer {
			v = v.Elem()
			continue
		}
		i := 0
		for n := 0; ; i++ {
			if n = len(numbers(v.Field(i), nil, depth-1)); k < n {
				break
			}
			k -= n
		}
		name += "." + v.Type().Field(i).Name
		v = v.Field(i)
	}
	if name == "" {
		return fmt.Sprintf("%T", batch)
	}
	return name[1:]
}
