package expected

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/data/idx"
	"github.com/gotrainer/gotrainer/internal/conformance/recorded"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// mnist is a file with "architecture": a network with weights from PyTorch classifies the test
// images of MNIST.
type mnist struct {
	data string

	model, architecture, normalise string
	mean, deviation                float64
	correct, total                 int

	outputs []float32 // log probabilities of all images, [total, classes]; computed once
	labels  []int
}

// logTolerance is the tolerance for log probabilities that were printed with six decimals, after
// sums of thousands of float32 products.
const logTolerance = 1e-4

// imagesAtOnce limits the memory of a forward pass.
const imagesAtOnce = 500

func readMNIST(d *document) []Entry {
	c := &mnist{data: d.options.Data, model: fieldOf[string](d, "model"),
		architecture: fieldOf[string](d, "architecture"), normalise: fieldOf[string](d, "normalise"),
		correct: fieldOf[int](d, "correct"), total: fieldOf[int](d, "total")}
	entries := []Entry{entry("correct", c.runCorrect)}
	for _, field := range d.matching([]string{"logprobs_first*"}) {
		entries = append(entries, entry(field, func() { c.runFirst(decode[[][]float64](d.fields[field])) }))
	}
	return entries
}

func (c *mnist) runCorrect() {
	c.compute()
	correct, classes := 0, len(c.outputs)/len(c.labels)
	for i, label := range c.labels {
		row := c.outputs[i*classes : (i+1)*classes]
		if slices.Index(row, slices.Max(row)) == label {
			correct++
		}
	}
	if correct != c.correct {
		spec.Failf("%d of %d images are read rightly, want %d", correct, len(c.labels), c.correct)
	}
}

func (c *mnist) runFirst(rows [][]float64) {
	c.compute()
	if len(rows) == 0 {
		unsupported("there is nothing to compare")
	}
	classes := len(c.outputs) / len(c.labels)
	for i, want := range rows {
		if len(want) != classes || i >= len(c.labels) {
			unsupported("row %d has %d values, but there are %d images and %d classes", i, len(want), len(c.labels),
				classes)
		}
		allNear(fmt.Sprintf("image %d: log-probability of", i), at(c.outputs[i*classes:]), want, 0, logTolerance)
	}
}

// compute runs the network on all images, once.
func (c *mnist) compute() {
	if c.outputs != nil {
		return
	}
	if n, err := fmt.Sscanf(c.normalise, "(x/255-%g)/%g", &c.mean, &c.deviation); n != 2 || err != nil ||
		c.deviation == 0 {
		unsupported("normalise is %q; want (x/255-mean)/deviation", c.normalise)
	}
	recorded.Load()
	set := supported(idx.Open(filepath.Join(c.data, "mnist", "t10k")))
	if set.Len() != c.total || set.Len() == 0 {
		unsupported("the test set has %d images, want %d", set.Len(), c.total)
	}
	net := parseArchitecture(c.architecture)
	file, _, _ := strings.Cut(c.model, " ")
	if !filepath.IsLocal(file) {
		unsupported("model is %q; want a file below the data folder", file)
	}
	spec.Must(nn.Load(filepath.Join(c.data, file), net.layers, nn.LoadOptions{Rename: net.rename}))
	nn.SetTraining(net.layers, false)
	torch.NoGrad(func() { c.forward(net, set) })
}

func (c *mnist) forward(net *network, set *idx.Set) {
	size := set.Height * set.Width
	for begin := 0; begin < set.Len(); begin += imagesAtOnce {
		rows := min(imagesAtOnce, set.Len()-begin)
		pixels := make([]float32, 0, rows*size)
		for i := range rows {
			sample := spec.Must(set.At(begin + i))
			for _, grey := range sample.Image {
				pixels = append(pixels, float32((float64(grey)/255-c.mean)/c.deviation))
			}
			c.labels = append(c.labels, sample.Label)
		}
		torch.Scope(func() {
			y := net.layers.Forward(torch.From(pixels, int64(rows), 1, int64(set.Height), int64(set.Width)))
			c.outputs = append(c.outputs, torch.Values[float32](y)...)
		})
	}
}
