// Package stepcount counts what libtorch is asked to do, using the profiler: the costs of a
// training step that are the same on every machine. Operations that wait for a GPU can be counted
// without one, because an operator that reads back a number does so on a CPU as well.
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

// Counts are the operations that happened while a function ran.
type Counts struct {
	Operators int   // called operators of libtorch, not including those that they call in turn
	ReadBacks int   // of values from the device to the host; each waits for all work on the device
	Uploads   int   // of Go slices to tensors; each is a copy on a GPU
	Tensors   int   // tensors for which memory was allocated
	Bytes     int64 // allocated for these tensors

	ByName map[string]int // the read-backs, by the operator that Go or autograd called
}

// readers are the operators whose result, or its shape, the host needs. Reading a tensor in Go is
// gotrainer::to_bytes.
var readers = []string{"gotrainer::to_bytes", "aten::_local_scalar_dense", "aten::nonzero", "aten::equal",
	"aten::masked_select", "aten::_unique2", "aten::unique_dim", "aten::unique_consecutive", "aten::bincount",
	"aten::repeat_interleave"}

// onCPUOnly are the operators whose CPU kernels read 0-dimensional tensors as numbers, unlike their
// GPU kernels.
var onCPUOnly = []string{"aten::_fused_adamw_"}

// Of runs f and counts operations of the calling goroutine and of the backward passes that it runs.
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

// event is an event of a Chrome trace.
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
	bytes, _ := raw.Args.Bytes.Int64() // missing in other events
	*e = event{raw.Name, raw.Phase, raw.Thread, raw.Start, raw.Start + raw.Lasting, bytes}
	return nil
}

func count(events []event) Counts {
	c := Counts{ByName: map[string]int{}}
	slices.SortStableFunc(events, func(a, b event) int { // an operator precedes those that it calls
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(b.End, a.End))
	})
	outer := map[any]event{} // by thread: the current or last outermost operator
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

// Each returns the cost of one of n repetitions: c counts all of them and a remainder, and other
// only the remainder.
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
