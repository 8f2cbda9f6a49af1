package optim

import (
	"fmt"
	"testing"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

// GPU kernels take only tensors of one dtype and device. CPU kernels accept mixtures, so the test
// examines the division itself.
func TestKernelsGetParametersOfOneDType(t *testing.T) {
	testenv.RequireTorch(t)
	var members []*member
	for i, d := range []torch.DType{torch.Float32, torch.BFloat16, torch.Float32, torch.Float64, torch.BFloat16} {
		members = append(members, &member{Named: torch.Named{Name: fmt.Sprint(i), Tensor: torch.Zeros(2).ToDType(d)},
			states: []torch.Tensor{torch.Zeros(2)}})
	}
	var got string
	for _, s := range shardsOf(members) {
		got += s.dtype.String() + ":"
		for i, m := range s.members {
			got += m.Name
			if !s.params.Tensors()[i].Is(m.Tensor) || !s.states[0].Tensors()[i].Is(m.states[0]) {
				t.Errorf("the lists of %s do not run parallel to its parameters", s.dtype)
			}
		}
		got += " "
	}
	if want := "float32:02 bfloat16:14 float64:3 "; got != want {
		t.Errorf("the shards are %q, want %q", got, want)
	}
}
