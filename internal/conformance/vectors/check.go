package vectors

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"strconv"

	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/torch"
)

// tolerance is the allowed difference of a network's numbers, relative to the number or to the norm
// of the tensor.
const tolerance = 1e-4

// check records numbers that are not bitwise equal, and fails at the first difference above the
// tolerance.
type check struct {
	worst  float64
	begins string
}

func (c *check) deviates(what string, by, allowed float64, got, want any) {
	if !(by <= allowed) {
		spec.Failf("%s is %v, recorded is %v", what, got, want)
	}
	c.begins, c.worst = cmp.Or(c.begins, what), max(c.worst, by)
}

// equal compares values that must be equal.
func (c *check) equal(what string, got, want any) {
	if !reflect.DeepEqual(got, want) {
		spec.Failf("%s is %v, recorded is %v", what, got, want)
	}
}

// metric compares metrics, to 1e-12.
func (c *check) metric(what string, got, want float64) {
	if got != want {
		c.deviates(what, math.Abs(got-want), 1e-12, got, want)
	}
}

// hex compares a number computed by a network with its recorded form. A number computed together
// with larger ones has errors of their size, so the difference is taken relative to the number
// itself or to a thousandth of the others, whichever is greater.
func (c *check) hex(what string, got float64, recorded string, others float64) {
	if want := spec.Must(strconv.ParseFloat(recorded, 64)); got != want {
		c.deviates(what, math.Abs(got-want)/max(math.Abs(want), others/1000, math.SmallestNonzeroFloat64),
			tolerance, got, recorded)
	}
}

// values compares the elements of a tensor computed by a network.
func (c *check) values(what string, got, want []float32) {
	c.equal("the number of values of "+what, len(got), len(want))
	var difference, norm float64
	same := true
	for i := range want {
		same = same && math.Float32bits(got[i]) == math.Float32bits(want[i])
		d := float64(got[i]) - float64(want[i])
		difference += d * d
		norm += float64(want[i]) * float64(want[i])
	}
	if !same {
		c.deviates(what, math.Sqrt(difference)/max(math.Sqrt(norm), math.SmallestNonzeroFloat64), tolerance,
			"another tensor", fmt.Sprintf("one of norm %g", math.Sqrt(norm)))
	}
}

// tensor compares two tensors of any dtype.
func (c *check) tensor(what string, got, want torch.Tensor) {
	c.equal("the shape of "+what, got.Shape(), want.Shape())
	c.equal("the dtype of "+what, got.DType().String(), want.DType().String())
	switch want.DType() {
	case torch.Float32:
		c.values(what, torch.Values[float32](got), torch.Values[float32](want))
	case torch.Int64:
		c.equal(what, torch.Values[int64](got), torch.Values[int64](want))
	default:
		spec.Failf("%s has dtype %s, which is not compared", what, want.DType())
	}
}
