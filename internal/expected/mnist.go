package expected

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/gotrainer/gotrainer/data/idx"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// mnist is a file with "architecture": a network with weights of PyTorch reads the test images of
// MNIST.
type mnist struct {
	data string

	model, architecture, normalise string
	mean, deviation                float64
	correct, total                 int

	outputs []float32 // logarithms of the probabilities of all images, [total, classes]; computed once
	labels  []int
}

// logTolerance is how closely logarithms of probabilities agree that were printed with six places,
// after sums of thousands of float32 products.
const logTolerance = 1e-4

// imagesAtOnce bounds the memory of a forward pass.
const imagesAtOnce = 500

func readMNIST(d *document) ([]Entry, error) {
	c := &mnist{data: d.options.Data}
	for _, f := range []struct {
		name string
		to   any
	}{{"model", &c.model}, {"architecture", &c.architecture}, {"normalise", &c.normalise}, {"correct", &c.correct},
		{"total", &c.total}} {
		if err := json.Unmarshal(d.fields[f.name], f.to); err != nil {
			return nil, fmt.Errorf("field %q: %w", f.name, err)
		}
	}
	entries := []Entry{{"correct", c.runCorrect}}
	for _, field := range d.matching([]string{"logprobs_first*"}) {
		entries = append(entries, Entry{field, func() error {
			rows, err := decode[[][]float64](d.fields[field])
			if err != nil {
				return err
			}
			return c.runFirst(rows)
		}})
	}
	return entries, nil
}

func (c *mnist) runCorrect() error {
	if err := c.compute(); err != nil {
		return err
	}
	correct, classes := 0, len(c.outputs)/len(c.labels)
	for i, label := range c.labels {
		best := 0
		for k, v := range c.outputs[i*classes : (i+1)*classes] {
			if v > c.outputs[i*classes+best] {
				best = k
			}
		}
		if best == label {
			correct++
		}
	}
	if correct != c.correct {
		return fmt.Errorf("%d of %d images are read rightly, want %d", correct, len(c.labels), c.correct)
	}
	return nil
}

func (c *mnist) runFirst(rows [][]float64) error {
	if err := c.compute(); err != nil {
		return err
	}
	if len(rows) == 0 {
		return unsupported("there is nothing to compare")
	}
	classes := len(c.outputs) / len(c.labels)
	for i, want := range rows {
		if len(want) != classes || i >= len(c.labels) {
			return unsupported("row %d has %d values, but there are %d images and %d classes", i, len(want),
				len(c.labels), classes)
		}
		at := func(k int) float64 { return float64(c.outputs[i*classes+k]) }
		if err := allNear(fmt.Sprintf("image %d: log-probability of", i), at, want, 0, logTolerance); err != nil {
			return err
		}
	}
	return nil
}

// compute runs the network over all images, once.
func (c *mnist) compute() error {
	if c.outputs != nil {
		return nil
	}
	if n, err := fmt.Sscanf(c.normalise, "(x/255-%g)/%g", &c.mean, &c.deviation); n != 2 || err != nil ||
		c.deviation == 0 {
		return unsupported("normalise is %q; want (x/255-mean)/deviation", c.normalise)
	}
	if err := torch.Load(); err != nil {
		return unsupported("%v", err)
	}
	set, err := idx.Open(filepath.Join(c.data, "mnist", "t10k"))
	if err != nil {
		return unsupported("%v", err)
	}
	if set.Len() != c.total || set.Len() == 0 {
		return unsupported("the test set has %d images, want %d", set.Len(), c.total)
	}
	net, err := parseArchitecture(c.architecture)
	if err != nil {
		return err
	}
	file, _, _ := strings.Cut(c.model, " ")
	if !filepath.IsLocal(file) {
		return unsupported("model is %q; want a file below the data folder", file)
	}
	if _, err := nn.Load(filepath.Join(c.data, file), net.layers, nn.LoadOptions{Rename: net.rename}); err != nil {
		return err
	}
	nn.SetTraining(net.layers, false)
	torch.NoGrad(func() { c.forward(net, set) })
	return nil
}

func (c *mnist) forward(net *network, set *idx.Set) {
	size := set.Height * set.Width
	for begin := 0; begin < set.Len(); begin += imagesAtOnce {
		rows := min(imagesAtOnce, set.Len()-begin)
		pixels := make([]float32, 0, rows*size)
		for i := range rows {
			sample, err := set.At(begin + i)
			if err != nil {
				panic(err) // a set in memory has every image
			}
			for _, grey := range sample.Image {
				pixels = append(pixels, float32((float64(grey)/255-c.mean)/c.deviation))
			}
			c.labels = append(c.labels, sample.Label)
		}
		torch.Scope(func() {
			y := net.Forward(torch.From(pixels, int64(rows), 1, int64(set.Height), int64(set.Width)))
			c.outputs = append(c.outputs, torch.Values[float32](y)...)
		})
	}
}
