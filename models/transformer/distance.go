package transformer

import (
	"math"

	"github.com/gotrainer/gotrainer/torch"
)

// DistanceClasses are the classes, below n, of distances from a query to a key: each of the first has
// its own, farther ones share, the farther the more, and all from farthest on have the last. In both
// ways each side has half of them; else keys behind the query have that of 0. It is
// _relative_position_bucket of transformers' T5 and, with 32, 128 and both ways, MPNet's.
func DistanceClasses(distance torch.Tensor, n, farthest int64, bothWays bool) torch.Tensor {
	var ahead torch.Tensor
	if bothWays {
		n /= 2
		ahead = distance.GtScalar(0).ToDType(torch.Int64).MulScalar(n)
		distance = distance.Abs()
	} else {
		distance = distance.Minimum(distance.ZerosLike()).Neg()
	}
	exact := n / 2
	far := distance.ToDType(torch.Float32).DivScalar(float64(exact)).Log()
	far = far.DivScalar(math.Log(float64(farthest) / float64(exact))).MulScalar(float64(n - exact))
	far = far.ToDType(torch.Int64).AddScalar(exact)
	far = far.Minimum(far.FullLike(n - 1))
	classes := torch.Where(distance.LtScalar(exact), distance, far)
	if bothWays {
		return ahead.Add(classes)
	}
	return classes
}
