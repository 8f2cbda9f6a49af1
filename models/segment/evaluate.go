package segment

import (
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// An evaluation keeps areas, numbers of pixels by class, instead of maps. They are counted on the
// device, where they stay until the end, so that no batch waits for it.

// Observe records an evaluation batch.
func (t *Task) Observe(_ Batch, o engine.Outputs) {
	if len(o.Labels) == 0 {
		return
	}
	torch.NoGrad(func() {
		torch.Scope(func() {
			t.join()
			t.last = t.areas(o.Logits[0].Detach(), o.Labels[0]).Keep()
		})
	})
}

// areas counts for each sample and class the pixels of the intersection, those predicted and those
// of the label, [B, 3, classes].
func (t *Task) areas(logits, labels torch.Tensor) torch.Tensor {
	predicted := Predicted(Resize(logits.ToDType(torch.Float32), labels.Size(1), labels.Size(2)))
	kept, rows, n := labels.NeScalar(float64(t.ignored)), labels.Size(0), t.classes
	first := torch.TensorOptions{DType: torch.Int64, Device: labels.Device()}.Arange(0, float64(rows*(n+1)), float64(n+1))
	count := func(classes, where torch.Tensor) torch.Tensor { // the others are counted in a bin of their own
		bins := torch.Where(where, classes, classes.FullLike(float64(n))).Add(first.View(rows, 1, 1))
		return torch.Call("aten::bincount", bins.View(-1), nil, rows*(n+1))[0].View(rows, n+1).Narrow(1, 0, n)
	}
	return torch.Stack([]torch.Tensor{count(labels, kept.LogicalAnd(predicted.Eq(labels))), count(predicted, kept),
		count(labels, kept)}, 1)
}

// join adds the areas of the last batch to those before it.
func (t *Task) join() {
	if !t.last.Defined() {
		return
	}
	sum := t.last.SumDim([]int64{0}, false, torch.DefaultDType)
	t.last.Free()
	if t.before.Defined() {
		sum = sum.Add(t.before)
		t.before.Free()
	}
	t.last, t.before = torch.Tensor{}, sum.Keep()
}

// collect waits for the device and adds the areas there to the metric.
func (t *Task) collect() {
	torch.Scope(func() {
		if t.join(); t.before.Defined() {
			all, n := torch.Values[int64](t.before), int(t.classes)
			_ = t.metric.AddAreas(all[:n], all[n:2*n], all[2*n:]) // there are as many of each
			t.before.Free()
			t.before = torch.Tensor{}
		}
	})
}

// Metrics ends an evaluation. The numbers are those of [metrics.MeanIoU], with the names of the
// classes: "mean_iou", "mean_accuracy", "overall_accuracy", "iou_road", "accuracy_road", ... With
// one label, "road", the class of the other pixels is "no road".
func (t *Task) Metrics() map[string]float64 {
	t.collect()
	defer t.metric.Reset()
	return t.metric.Result()
}

// TakeObserved waits for the device and returns the areas of the first rows samples since the last
// call: engine.ObservationSharer.
func (t *Task) TakeObserved(rows int) ([]byte, error) {
	all := t.metric // of all processes
	defer func() { t.metric = all }()
	t.metric.Reset()
	if t.last.Defined() && int64(rows) < t.last.Size(0) {
		some := t.last.Narrow(0, 0, int64(rows)).Clone().Keep()
		t.last.Free()
		t.last = some
	}
	t.collect()
	return t.metric.State()
}

// AddObserved adds what TakeObserved returned on some process.
func (t *Task) AddObserved(part []byte) error { return t.metric.Merge(part) }
