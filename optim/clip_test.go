package optim_test

import (
	"fmt"
	"testing"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// torch.nn.utils.get_total_norm computes the norms dtype by dtype, starting with the dtype that
// occurs last.
func TestTheTotalNormOfSeveralDTypesHasTheOrderOfPyTorch(t *testing.T) {
	testenv.RequireTorch(t)
	torch.Scope(func() {
		torch.ManualSeed(1)
		for range 100 {
			var params []torch.Named
			norms := map[torch.DType][]torch.Tensor{}
			for i := range 12 {
				dtype := []torch.DType{torch.Float32, torch.BFloat16}[i%2]
				g := torch.Randn(5).ToDType(dtype)
				p := g.ZerosLike().RequiresGrad()
				p.SetGrad(g)
				params = append(params, torch.Named{Name: fmt.Sprint(i), Tensor: p})
				norms[dtype] = append(norms[dtype], g.Norm(2).ToDType(torch.Float32))
			}
			want := torch.Stack(append(norms[torch.BFloat16], norms[torch.Float32]...), 0).Norm(2)
			golden.Bits(t, "the norm", optim.ClipGradNorm(params, 1), want)
		}
	})
}
