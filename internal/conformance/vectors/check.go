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

// tolerance is what numbers of a network may differ by, relative to the number or to the norm of
// the tensor.
const tolerance = 1e-4

// check gathers what is not equal to the last bit; it fails at the first difference that is more.
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

// equal compares what must be the same.
func (c *check) equal(what string, got, want any) {
	if !reflect.DeepEqual(got, want) {
		spec.Failf("%s is %v, recorded is %v", what, got, want)
	}
}

// metric compares to 1e-12.
func (c *check) metric(what string, got, want float64) {
	if got != want {
		c.deviates(what, math.Abs(got-want), 1e-12, got, want)
	}
}

// hex compares a number of a network with its recorded form. A number that is made beside greater
// ones has their errors: it deviates by its difference against the greater of it and a thousandth
// of the others.
func (c *check) hex(what string, got float64, recorded string, others float64) {
	if want := spec.Must(strconv.ParseFloat(recorded, 64)); got != want {
		c.deviates(what, math.Abs(got-want)/max(math.Abs(want), others/1000, math.SmallestNonzeroFloat64),
			tolerance, got, recorded)
	}
}

// values compares the numbers of a tensor of a network.
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

// tensor compares two tensors of any type.
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
