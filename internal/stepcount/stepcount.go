// Package stepcount counts what libtorch is asked to do, from the profiler's record: the costs of a
// training step that are the same on every machine. What waits for a GPU can so be counted without
// one: an operator that reads a number back does it on a CPU too, where nobody has to wait.
package stepcount

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/torch"
)

// Counts are what happened while a function ran.
type Counts struct {
	Operators int   // of libtorch that were called, not the ones that these call in turn
	ReadBacks int   // of values from the device to the host; each waits for all that the device has to do
	Uploads   int   // of slices of Go to tensors; to a GPU each is a copy
	Tensors   int   // that got memory of their own
	Bytes     int64 // of that memory

	ByName map[string]int // the read-backs by the operator that Go or autograd called
}

// readers are the operators whose result, or its shape, the host has to know. A tensor that Go
// reads is gotrainer::to_bytes.
var readers = []string{"gotrainer::to_bytes", "aten::_local_scalar_dense", "aten::nonzero", "aten::equal",
	"aten::masked_select", "aten::_unique2", "aten::unique_dim", "aten::unique_consecutive", "aten::bincount",
	"aten::repeat_interleave"}

// onCPUOnly are the operators whose kernels for the CPU read tensors without dimensions as numbers,
// which those for a GPU do not.
var onCPUOnly = []string{"aten::_fused_adamw_"}

// Of runs f and counts. It sees the calling goroutine and the backward passes that it runs.
func Of(t testing.TB, f func()) Counts {
	t.Helper()
	path := t.TempDir() + "/trace.json"
	if err := torch.Profile(path, torch.ProfileOptions{Memory: true}, f); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var trace struct{ TraceEvents []event }
	if err := json.Unmarshal(text, &trace); err != nil {
		t.Fatalf("the profiler's trace: %v", err)
	}
	return count(trace.TraceEvents)
}

// event is one of a Chrome trace.
type event struct {
	Name, Phase string
	Thread      any
	Start, End  float64
	Bytes       int64
}

func (e *event) UnmarshalJSON(text []byte) error {
	var raw struct {
		Name    string  `json:"name"`
		Phase   string  `json:"ph"`
		Thread  any     `json:"tid"`
		Start   float64 `json:"ts"`
		Lasting float64 `json:"dur"`
		Args    struct{ Bytes json.Number }
	}
	if err := json.Unmarshal(text, &raw); err != nil {
		return err
	}
	bytes, _ := raw.Args.Bytes.Int64() // other events have none
	*e = event{raw.Name, raw.Phase, raw.Thread, raw.Start, raw.Start + raw.Lasting, bytes}
	return nil
}

func count(events []event) Counts {
	c := Counts{ByName: map[string]int{}}
	slices.SortStableFunc(events, func(a, b event) int { // an operator before the ones that it calls
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(b.End, a.End))
	})
	outer := map[any]event{} // the operator that a thread is in, or was
	for _, e := range events {
		if e.Name == "[memory]" && e.Bytes > 0 {
			c.Tensors, c.Bytes = c.Tensors+1, c.Bytes+e.Bytes
		}
		if e.Phase != "X" {
			continue
		}
		if e.Name == "gotrainer::from_bytes" {
			c.Uploads++
		}
		if o, ok := outer[e.Thread]; strings.HasPrefix(e.Name, "aten::") && (!ok || e.Start >= o.End) {
			c.Operators++
			outer[e.Thread] = e
		}
		if slices.Contains(readers, e.Name) {
			by := e.Name
			if o := outer[e.Thread]; e.Start < o.End {
				by = o.Name
			}
			if !slices.Contains(onCPUOnly, by) {
				c.ReadBacks++
				c.ByName[by]++
			}
		}
	}
	return c
}

// Each is what one of n repetitions costs: c is that of all, without what other has counted of the
// rest.
func (c Counts) Each(n int, other Counts) Counts {
	each := Counts{(c.Operators - other.Operators) / n, (c.ReadBacks - other.ReadBacks) / n,
		(c.Uploads - other.Uploads) / n, (c.Tensors - other.Tensors) / n, (c.Bytes - other.Bytes) / int64(n),
		map[string]int{}}
	for name, k := range c.ByName {
		if k != other.ByName[name] {
			each.ByName[name] = (k - other.ByName[name]) / n
		}
	}
	return each
}

func (c Counts) String() string {
	return fmt.Sprintf("%d operators, %d read-backs %v, %d uploads, %d tensors of %d bytes", c.Operators, c.ReadBacks,
		c.ByName, c.Uploads, c.Tensors, c.Bytes)
}
