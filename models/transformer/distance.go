package transformer

import (
	"math"

	"github.com/gotrainer/gotrainer/torch"
)

// DistanceClasses returns the classes, below n, of the distances from a query to a key. Each of
// the shortest distances has its own class; longer ones share classes, more of them the longer
// they are, and all from farthest on have the last. If both directions count, each has half of the
// classes; otherwise keys after the query have the class of 0. It is _relative_position_bucket of
// transformers' T5 and, with 32, 128 and both directions, MPNet's.
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
