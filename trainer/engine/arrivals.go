package engine

import (
	"fmt"
	"reflect"
	"slices"
	"unsafe"

	"github.com/gotrainer/gotrainer/torch"
)

// arrivals are the batches whose numbers the device has before [Input] asks for them, because they
// were sent ahead (Options.Prefetch) or are of a set that it holds (Options.DatasetOnDevice).
type arrivals []*arrival

// arrival is such a batch.
type arrival struct {
	slices []slice
	tensor func(k int) torch.Tensor // slice k on the device, for the stream that computes
	free   func()
	used   bool
}

// take is what the device has of a slice, if it is one of these batches.
func (a arrivals) take(s slice) (t torch.Tensor, ok bool) {
	for _, b := range slices.Backward(a) { // a slice may be used again for a later batch
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

// slice is one of numbers that a batch holds.
type slice struct {
	at      unsafe.Pointer
	n       int
	element reflect.Type
}

func (s slice) bytes() []byte { return unsafe.Slice((*byte)(s.at), s.n*int(s.element.Size())) }

// pinned copies it into page-locked memory.
func (s slice) pinned() torch.Tensor { return sendable[s.element].pin(s) }

// sendable are the types of numbers that are sent.
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

// maxDepth is how deep in structs and pointers slices are looked for.
const maxDepth = 8

// slicesOf are the slices of numbers in the fields of a batch.
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

// nameOf is where slice k of a batch is: "InputIDs.Values".
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
