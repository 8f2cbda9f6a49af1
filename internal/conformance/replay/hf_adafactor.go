package replay

import (
	"encoding/binary"
	"math"
	"strings"

	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// What the Adafactor of transformers keeps in its state that ours does not, since no update depends
// on it.

// rootMeanSquares are the sizes of the parameters before an update: the state RMS.
func rootMeanSquares(o optim.Optimizer) (all []tensorBytes, err error) {
	err = torch.Try(func() {
		torch.NoGrad(func() {
			torch.Scope(func() {
				for _, p := range o.Params() {
					if !p.Tensor.Grad().Defined() {
						continue
					}
					norm := torch.Call("aten::linalg_vector_norm", p.Tensor, 2, nil, false, nil)[0]
					rms := norm.DivScalar(math.Sqrt(float64(p.Tensor.Numel())))
					all = append(all, copies("optim.", []torch.Named{{Name: p.Name + ".RMS", Tensor: rms}})...)
				}
			})
		})
	})
	return all, err
}

// integerSteps turns the counts of updates into integers, as which Python keeps them there.
func integerSteps(final []tensorBytes) {
	for i, t := range final {
		if strings.HasPrefix(t.name, "optim.") && strings.HasSuffix(t.name, ".step") && t.dtype == torch.Float32 &&
			len(t.raw) == 4 {
			count := math.Float32frombits(binary.LittleEndian.Uint32(t.raw))
			final[i].dtype, final[i].raw = torch.Int64, binary.LittleEndian.AppendUint64(nil, uint64(count))
		}
	}
}
