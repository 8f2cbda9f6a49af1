package optim

import "github.com/gotrainer/gotrainer/torch"

// point is a point on the search line: its distance along the direction, the loss and the gradient
// there, and the slope along the direction.
type point struct {
	t        scalar
	loss     float64
	gradient torch.Tensor
	slope    scalar
}

func (p point) value() scalar { return num(p.loss) }

// lineSearch is _strong_wolfe of torch/optim/lbfgs.py: it searches for a step along the direction
// that satisfies the strong Wolfe conditions, which means that the loss has decreased and the slope
// has flattened enough. It leaves the parameters unchanged and sets l.step.
func (l *lbfgs) lineSearch(closure func() float64, loss float64, gradient torch.Tensor, slope scalar,
	limit int) (float64, torch.Tensor, int) {
	const decrease, flatness = 1e-4, 0.9
	start := point{num(0), loss, gradient.Clone(), slope}
	size := l.item(l.direction.Abs().Max())
	origin := make([]torch.Tensor, len(l.params))
	for i, p := range l.params {
		origin[i] = p.Tensor.Clone()
	}
	calls := 0
	at := func(t scalar) point {
		calls++
		l.move(t)
		p := point{t: t, loss: l.evaluate(closure)}
		p.gradient = l.gradient()
		for i, o := range origin {
			l.params[i].Tensor.Copy_(o)
		}
		p.slope = l.item(p.gradient.Dot(l.direction))
		return p
	}
	tooHigh := func(p point) bool {
		return p.value().above(start.value().plus(num(decrease).times(p.t).times(slope)))
	}
	flat := func(p point) bool { return p.slope.abs().atMost(num(-flatness).times(slope)) }

	former, now := start, at(l.step)
	var bracket []point
	done, n := false, 0
	for ; n < limit; n++ {
		if tooHigh(now) || n > 1 && now.loss >= former.loss {
			bracket = []point{former, now}
			break
		}
		if flat(now) {
			bracket, done = []point{now}, true
			break
		}
		if now.slope.v >= 0 {
			bracket = []point{former, now}
			break
		}
		low := now.t.plus(num(0.01).times(now.t.minus(former.t)))
		t := cubicInterpolate(former, now, low, now.t.times(num(10)))
		former, now = now, at(t)
	}
	if n == limit {
		bracket = []point{start, now}
	}
	low, high := 0, len(bracket)-1
	if !(bracket[low].loss <= bracket[high].loss) {
		low, high = high, low
	}
	stuck := false
	for !done && n < limit {
		a, b := bracket[0].t, bracket[1].t
		if num(l.toleranceChange).above(b.minus(a).abs().times(size)) {
			break
		}
		first, last := least(a, b), most(a, b)
		t := cubicInterpolate(bracket[0], bracket[1], first, last)
		margin := num(0.1).times(last.minus(first))
		if margin.above(least(last.minus(t), t.minus(first))) { // too close to an end
			if stuck || last.atMost(t) || t.atMost(first) {
				if t.minus(first).abs().above(t.minus(last).abs()) {
					t = last.minus(margin)
				} else {
					t = first.plus(margin)
				}
				stuck = false
			} else {
				stuck = true
			}
		} else {
			stuck = false
		}
		now = at(t)
		n++
		if tooHigh(now) || now.loss >= bracket[low].loss {
			bracket[high] = now
			low, high = 0, 1
			if !(bracket[0].loss <= bracket[1].loss) {
				low, high = 1, 0
			}
			continue
		}
		if flat(now) {
			done = true
		} else if now.slope.times(bracket[high].t.minus(bracket[low].t)).v >= 0 {
			bracket[high] = bracket[low]
		}
		bracket[low] = now
	}
	l.step = bracket[low].t
	return bracket[low].loss, bracket[low].gradient, calls
}

// cubicInterpolate returns the minimum of the cubic through two points with their slopes, clamped
// to the bounds.
func cubicInterpolate(p, q point, low, high scalar) scalar {
	d1 := p.slope.plus(q.slope).minus(num(3).times(p.value().minus(q.value())).over(p.t.minus(q.t)))
	square := d1.times(d1).minus(p.slope.times(q.slope))
	if !(square.v >= 0) {
		return low.plus(high).over(num(2))
	}
	d2 := square.sqrt()
	var t scalar
	if p.t.atMost(q.t) {
		t = q.t.minus(q.t.minus(p.t).times(q.slope.plus(d2).minus(d1).over(q.slope.minus(p.slope).plus(num(2).times(d2)))))
	} else {
		t = p.t.minus(p.t.minus(q.t).times(p.slope.plus(d2).minus(d1).over(p.slope.minus(q.slope).plus(num(2).times(d2)))))
	}
	return least(most(t, low), high)
}
