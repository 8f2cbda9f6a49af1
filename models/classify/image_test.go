package classify_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/metrics"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// averages are a model whose logits are the means of the channels of its pictures.
type averages struct {
	head   classify.Head
	limits classify.ImageLimits
}

func (averages) Forward(pixels torch.Tensor) torch.Tensor {
	return pixels.MeanDim([]int64{2, 3}, false, torch.DefaultDType)
}
func (m averages) Head() classify.Head               { return m.head }
func (m averages) ImageLimits() classify.ImageLimits { return m.limits }
func (averages) WriteConfig(string) error            { return nil }

func newImageTask(t *testing.T, h classify.Head, l classify.ImageLimits) *classify.ImageTask {
	t.Helper()
	h, err := h.Resolved()
	require.NoError(t, err)
	task, err := classify.NewImageTask(averages{h, l}, classify.ImageTaskOptions{})
	require.NoError(t, err)
	return task
}

func picture(label int64, channels ...float32) classify.ImageSample {
	s := classify.ImageSample{Shape: []int64{int64(len(channels)), 1, 2}, Label: label}
	for _, v := range channels {
		s.Pixels = append(s.Pixels, v, v)
	}
	return s
}

func TestPicturesAreJudged(t *testing.T) {
	testenv.RequireTorch(t)
	task := newImageTask(t, classify.Head{NumLabels: 2}, classify.ImageLimits{Channels: 2, Height: 1, Width: 2})
	b, err := task.Collate([]classify.ImageSample{picture(0, 3, 1), picture(0, 1, 2), picture(-100, 7, 1)})
	require.NoError(t, err)
	assert.Equal(t, []int64{3, 2, 1, 2}, b.Shape)
	assert.Equal(t, []float32{3, 3, 1, 1, 1, 1, 2, 2, 7, 7, 1, 1}, b.Pixels)
	assert.Equal(t, int64(2), task.CountLabels(b))
	torch.NoGrad(func() { task.Observe(b, task.Predict(engine.ForwardPass{}, b)) })
	task.Recycle(b)
	assert.Equal(t, map[string]float64{"accuracy": 0.5}, task.Metrics())
}

func TestPicturesThatAModelCannotTakeAreNamed(t *testing.T) {
	limits := classify.ImageLimits{Channels: 2, Height: 1, Width: 2}
	anySize := classify.ImageLimits{Channels: 2, Height: 1, Width: 2, AnySize: true}
	wide := picture(0, 1, 2)
	wide.Shape, wide.Pixels = []int64{2, 1, 3}, make([]float32, 6)
	short, flat := picture(0, 1, 2), picture(0, 1, 2)
	short.Pixels, flat.Shape = short.Pixels[1:], []int64{4}
	for _, c := range []struct {
		want   string
		limits classify.ImageLimits
		sample classify.ImageSample
	}{
		{"Shape is [2 1 3]; the model takes pictures of [2 1 2]", limits, wide},
		{"Shape is [2 1 3], and [2 1 2] of the first picture", anySize, wide},
		{"Shape is [3 1 2]; the model takes [2 height width]", anySize, picture(0, 1, 2, 3)},
		{"Shape is [4]; the model takes [2 height width]", anySize, flat},
		{"Pixels has 3 values; Shape, [2 1 2], says 4", limits, short},
		{"Label is 2; want 0 to 1", limits, picture(2, 1, 2)},
	} {
		task := newImageTask(t, classify.Head{NumLabels: 2}, c.limits)
		_, err := task.Collate([]classify.ImageSample{picture(0, 1, 2), c.sample})
		var fault *classify.SampleError
		require.ErrorAs(t, err, &fault)
		assert.Equal(t, 1, fault.Index)
		assert.ErrorContains(t, err, c.want)
	}
	_, err := classify.NewImageTask(averages{head: classify.Head{NumLabels: 2, ProblemType: classify.SingleLabel}},
		classify.ImageTaskOptions{ValueMetrics: []metrics.Metric[float64]{&metrics.MSE{}}})
	assert.ErrorContains(t, err, "the model tells classes")
}
