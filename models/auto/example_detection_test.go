package auto_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/detect"
	"github.com/gotrainer/gotrainer/models/yolos"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/vision"
)

// street draws an image with a red or a blue rectangle on the left or on the right, and says where
// it is.
func street(r *rand.Rand) (*vision.Image, []detect.Object) {
	im := vision.NewImage(48, 32, 3)
	o := detect.Object{Class: r.IntN(2), X: 2 + 24*float64(r.IntN(2)), Y: 8, Width: 20, Height: 16}
	for y := int(o.Y); y < int(o.Y+o.Height); y++ {
		for x := int(o.X); x < int(o.X+o.Width); x++ {
			im.Row(y)[3*x+2*o.Class] = 255
		}
	}
	return im, []detect.Object{o}
}

// ObjectDetection finds a rectangle in an image and tells its color. Other programs load a model of
// the Hub, such as hustvl/yolos-tiny, with auto.ObjectDetection, and images with package data/coco.
func ExampleNewObjectDetection() {
	torch.ManualSeed(1)
	processor, err := vision.NewProcessor(vision.ProcessorOptions{Rescale: 1 / 255., Mean: []float64{0.5},
		Std: []float64{0.5}, Float32: true})
	check(err)
	model, err := auto.NewObjectDetection(yolos.Config{HiddenSize: 32, NumLayers: 2, NumHeads: 4, IntermediateSize: 64,
		ImageSize: yolos.Size{Height: 32, Width: 48}, PatchSize: 8, NumDetectionTokens: 3, InitializerRange: 0.2,
		Head: classify.Head{ID2Label: []string{"red", "blue"}}}, processor)
	check(err)
	var samples data.Slice[detect.Sample]
	r := rand.New(rand.NewPCG(1, 2))
	for range 160 {
		sample, err := model.Encode(street(r))
		check(err)
		samples = append(samples, sample)
	}
	step, err := engine.New(model.Task(), engine.Options{Optimizer: optim.AdamW{LR: 3e-3}})
	check(err)
	t, err := trainer.New(step, trainer.Options{Epochs: 15, BatchSize: 8, Eval: trainer.Every(15, trainer.Epoch),
		Save: trainer.Never, Progress: io.Discard})
	check(err)
	result, err := t.Fit(context.Background(), samples[:128], samples[128:])
	check(err)
	fmt.Println("mean average precision above 0.6:", result.Best.Metrics["eval_map"] > 0.6)

	im, _ := street(r)
	found, err := model.Predict(im, 0.5)
	check(err)
	fmt.Println(found[0].Label, found[0].XMax-found[0].XMin > 10)
	// Output:
	// mean average precision above 0.6: true
	// blue true
}
