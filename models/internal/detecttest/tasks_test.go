package detecttest_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/ranktest"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/metrics"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/detect"
	"github.com/gotrainer/gotrainer/models/detr"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/models/lora"
	"github.com/gotrainer/gotrainer/models/resnet"
	"github.com/gotrainer/gotrainer/models/vit"
	"github.com/gotrainer/gotrainer/models/yolos"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/initialize"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/vision"
)

// The models of the tests without golden values.
var (
	smallYolos = yolos.Config{HiddenSize: 8, NumLayers: 2, NumHeads: 2, IntermediateSize: 8,
		ImageSize: yolos.Size{Height: 16, Width: 24}, PatchSize: 8, NumDetectionTokens: 5}
	smallDetr = detr.Config{Backbone: resnet.Config{EmbeddingSize: 4, HiddenSizes: []int64{4, 8}, Depths: []int64{1, 1},
		LayerType: resnet.BasicLayer}, NumQueries: 5, HiddenSize: 8, EncoderLayers: 1, EncoderHeads: 2, EncoderFFNDim: 8,
		DecoderLayers: 2, DecoderHeads: 2, DecoderFFNDim: 8, AuxiliaryLoss: true}
)

// small makes a model with random weights for the classes cat and dog.
func small(t *testing.T, c auto.Config, o vision.ProcessorOptions) *auto.ObjectDetector {
	t.Helper()
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	torch.ManualSeed(3)
	o.Float32, o.Rescale = true, 1/255.
	p, err := vision.NewProcessor(o)
	require.NoError(t, err)
	m, err := auto.NewObjectDetection(c, p)
	require.NoError(t, err)
	return m
}

// scene is an image of which one part is brighter, and that part.
func scene(i, width, height int) (*vision.Image, []detect.Object) {
	im := vision.NewImage(width, height, 3)
	o := detect.Object{Class: i % 2, X: float64(i % 5), Y: float64(i % 3), Width: 8, Height: float64(5 + i%4)}
	for y := int(o.Y); y < int(o.Y+o.Height); y++ {
		for x := int(o.X); x < int(o.X+o.Width); x++ {
			im.Pix[3*(y*width+x)+i%2] = 200
		}
	}
	return im, slices.Repeat([]detect.Object{o}, 1+i%3)
}

func scenes(t *testing.T, m *auto.ObjectDetector, n int) (samples []detect.Sample) {
	t.Helper()
	for i := range n {
		s, err := m.Encode(scene(i, 24, 16))
		require.NoError(t, err)
		samples = append(samples, s)
	}
	return samples
}

// TestProcessesShareLossAndEvaluation: with two processes, losses of boxes are divided by the
// objects of both, so that an update is that of one process with all images. The metrics of an
// evaluation are those of the whole set.
func TestProcessesShareLossAndEvaluation(t *testing.T) {
	testenv.RequireTorch(t)
	settings := detect.DefaultLossSettings()
	settings.EOSCoefficient = 1 // otherwise the mean over all predictions is none of the two means
	var drawing sync.Mutex
	run := func(ctx context.Context, c auto.Config, g *dist.Group, batch int) (weights []float32, m map[string]float64,
		err error) {
		drawing.Lock()
		detector := small(t, c, vision.ProcessorOptions{})
		for _, p := range nn.Params(detector) { // otherwise all queries of YOLOS cost the same
			if p.Name == "vit.embeddings.detection_tokens" {
				initialize.Normal(p.Tensor, 0, 1, nil)
			}
		}
		samples := scenes(t, detector, 9)
		drawing.Unlock()
		step, err := engine.New(detector.Task(), engine.Options{Optimizer: optim.SGD{LR: 1e-2}})
		if err != nil {
			return nil, nil, err
		}
		fit, err := trainer.New(step, trainer.Options{MaxSteps: 2, BatchSize: batch, EvalBatchSize: 2, Group: g,
			Save: trainer.Never, Eval: trainer.Every(2, trainer.Update), Progress: io.Discard})
		if err != nil {
			return nil, nil, err
		}
		result, err := fit.Fit(ctx, data.Slice[detect.Sample](samples[:8]), data.Slice[detect.Sample](samples))
		if err != nil {
			return nil, nil, err
		}
		for _, p := range nn.Params(detector) {
			weights = append(weights, torch.Values[float32](p.Tensor)...)
		}
		return weights, result.Best.Metrics, nil
	}
	y, d := smallYolos, smallDetr
	y.Loss, d.Loss = settings, settings
	for name, c := range map[string]auto.Config{"yolos": y, "detr": d} {
		weights, alone, err := run(t.Context(), c, nil, 4)
		require.NoError(t, err)
		var all [2][]float32
		var found [2]map[string]float64
		for rank, err := range ranktest.Together(t, 2, nil, func(ctx context.Context, g *dist.Group) (err error) {
			all[g.Rank()], found[g.Rank()], err = run(ctx, c, g, 2)
			return err
		}) {
			require.NoError(t, err, "rank %d", rank)
		}
		assert.Equal(t, all[0], all[1])
		for i, w := range weights {
			require.InDelta(t, w, all[0][i], 1e-5, name)
		}
		require.Contains(t, alone, "eval_map_50")
		for key, v := range alone {
			for rank := range found {
				if strings.HasPrefix(key, "eval_ma") {
					assert.InDelta(t, v, found[rank][key], 1e-3, "%s: %s", name, key)
				}
			}
		}
	}
}

// TestEvaluationsSeeBoxesInPixelsOfTheImage compares the metrics of an evaluation with padding with
// those of what Predict finds in each image alone.
func TestEvaluationsSeeBoxesInPixelsOfTheImage(t *testing.T) {
	m := small(t, smallYolos, vision.ProcessorOptions{MaxHeight: 16, MaxWidth: 24, PadHeight: 16, PadWidth: 24})
	collected := &collector{}
	task, err := detect.NewTask(m, detect.TaskOptions{Metrics: []metrics.Metric[[]metrics.Box]{collected}})
	require.NoError(t, err)
	var samples []detect.Sample
	sizes := [][2]int{{24, 16}, {48, 20}, {20, 40}}
	for i, size := range sizes {
		s, err := m.Encode(scene(i, size[0], size[1]))
		require.NoError(t, err)
		assert.Equal(t, []int64{3, 16, 24}, s.Shape)
		samples = append(samples, s)
	}
	assert.Equal(t, [2]int64{10, 24}, [2]int64{samples[1].Height, samples[1].Width})
	l := samples[1].Labels[0].Box // at 1, 1 with 8x6 pixels of 48x20, which became 24x10 of 24x16
	assert.InDelta(t, 5./48, l.CenterX, 1e-6)
	assert.InDelta(t, 4./20*10/16, l.CenterY, 1e-6)
	assert.InDelta(t, 6./20*10/16, l.Height, 1e-6)
	b, err := task.Collate(samples)
	require.NoError(t, err)
	nn.SetTraining(m, false)
	torch.NoGrad(func() { task.Observe(b, task.Predict(engine.ForwardPass{}, b)) })
	task.Metrics()
	require.Len(t, collected.found, len(sizes))
	for i, size := range sizes {
		im, objects := scene(i, size[0], size[1])
		found, err := m.Predict(im, 0)
		require.NoError(t, err)
		assert.Equal(t, objects, collected.there[i])
		for _, f := range found {
			assert.True(t, slices.ContainsFunc(collected.found[i], func(o detect.Object) bool {
				near := func(a, b float64) bool { return math.Abs(a-b) < 1e-3 }
				return o.Class == int(f.ID) && near(o.X, f.XMin) && near(o.Y+o.Height, f.YMax) && near(o.Score, f.Score)
			}), "%d: %+v", i, f)
		}
	}
}

// collector keeps what an evaluation compares.
type collector struct{ found, there [][]detect.Object }

func (c *collector) Name() string { return "collected" }
func (c *collector) Add(found, there []detect.Object) {
	c.found, c.there = append(c.found, found), append(c.there, there)
}
func (c *collector) Result() map[string]float64 { return map[string]float64{"collected": 0} }
func (c *collector) Reset()                     {}

// TestAdaptersOfDetectors are trained and saved with the heads, and load with the image processor.
func TestAdaptersOfDetectors(t *testing.T) {
	for layer, c := range map[string]auto.Config{"vit.encoder.layer.1.attention.attention.query": smallYolos,
		"model.decoder.layers.1.encoder_attn.v_proj": smallDetr} {
		m, base, out := small(t, c, vision.ProcessorOptions{ShortestEdge: 16, LongestEdge: 24}), t.TempDir(), t.TempDir()
		require.NoError(t, m.Save(base))
		require.NoError(t, m.AddLoRA(lora.Config{R: 2}))
		assert.Contains(t, m.LoRA().Layers(), layer)
		samples := scenes(t, m, 6)
		step, err := engine.New(m.Task(), engine.Options{})
		require.NoError(t, err)
		fit, err := trainer.New(step, trainer.Options{OutputDir: out, MaxSteps: 2, BatchSize: 3,
			Save: trainer.Every(2, trainer.Update), Progress: io.Discard})
		require.NoError(t, err)
		_, err = fit.Fit(t.Context(), data.Slice[detect.Sample](samples), nil)
		require.NoError(t, err)
		checkpoint := filepath.Join(out, "checkpoint-2")
		assert.NoFileExists(t, filepath.Join(checkpoint, "model.safetensors"))
		again, err := auto.ObjectDetection(t.Context(), checkpoint, auto.Options{BaseModel: base, Warnings: io.Discard})
		require.NoError(t, err)
		assert.Equal(t, m.ImageProcessor.Options(), again.ImageProcessor.Options())
		im, _ := scene(4, 24, 16)
		nn.SetTraining(m, false)
		want, err := m.Predict(im, 0)
		require.NoError(t, err)
		got, err := again.Predict(im, 0)
		require.NoError(t, err)
		assert.Equal(t, want, got)
		require.NoError(t, again.MergeLoRA())
		for _, p := range nn.Params(again) { // what a new model does not train is not trained again
			frozen := p.Name == "model.backbone.conv_encoder.model.embedder.embedder.convolution.weight" ||
				p.Name == "model.backbone.conv_encoder.model.encoder.stages.0.layers.0.layer.0.convolution.weight" ||
				p.Name == "model.backbone.conv_encoder.model.encoder.stages.0.layers.0.layer.1.convolution.weight"
			assert.Equal(t, !frozen, p.Tensor.NeedsGrad(), p.Name)
		}
	}
}

// TestWeightsIn16BitsAreTrained, though transformers cannot match predictions in 16 bits.
func TestWeightsIn16BitsAreTrained(t *testing.T) {
	for _, c := range []auto.Config{smallYolos, smallDetr} {
		whole, dir := small(t, c, vision.ProcessorOptions{}), t.TempDir()
		require.NoError(t, whole.Save(dir))
		for dtype, tolerance := range map[torch.DType]float64{torch.BFloat16: 0.1, torch.Float64: 1e-5} {
			m, err := auto.ObjectDetection(t.Context(), dir, auto.Options{DType: dtype, Warnings: io.Discard})
			require.NoError(t, err)
			m.SetTraining(true)
			whole.SetTraining(true)
			nn.SetTraining(m, false)
			nn.SetTraining(whole, false)
			b, err := m.Task().Collate(scenes(t, m, 4))
			require.NoError(t, err)
			want := whole.Task().Loss(engine.ForwardPass{}, b).Value.Item()
			loss := m.Task().Loss(engine.ForwardPass{}, b)
			assert.InDelta(t, want, loss.Value.Item(), tolerance, "%v", dtype)
			loss.Value.Backward()
			assert.Equal(t, dtype, nn.Params(m.Model)[len(nn.Params(m.Model))-1].Tensor.Grad().DType())
		}
	}
}

// TestTheBackboneOfADetrIsFrozen whole or in part.
func TestTheBackboneOfADetrIsFrozen(t *testing.T) {
	m := small(t, smallDetr, vision.ProcessorOptions{})
	trained := func() (n int) {
		for _, p := range nn.Params(m) {
			if p.Tensor.NeedsGrad() {
				n++
			}
		}
		return n
	}
	all := len(nn.Params(m))
	assert.Equal(t, all-3, trained())
	require.NoError(t, m.FreezeBackbone(true))
	assert.Equal(t, all-6, trained())
	require.NoError(t, m.FreezeBackbone(false))
	assert.Equal(t, all-3, trained())
	assert.ErrorContains(t, small(t, smallYolos, vision.ProcessorOptions{}).FreezeBackbone(true),
		"YolosForObjectDetection has no backbone")
}

// TestFilesOfTimmLoad: the ResNets of timm have torchvision's names.
func TestFilesOfTimmLoad(t *testing.T) {
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	config := map[string]any{"model_type": "detr", "use_timm_backbone": true, "backbone": "resnet18", "d_model": 8,
		"encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
		"encoder_ffn_dim": 8, "decoder_ffn_dim": 8, "num_queries": 3, "backbone_config": nil, "num_channels": 3}
	dir := modeltest.ConfigFolder(t, config)
	m, err := auto.ObjectDetection(t.Context(), dir, auto.Options{FromConfig: true, Warnings: io.Discard})
	require.NoError(t, err)
	theirs := resnet.ResNet18(nil)
	const prefix = "model.backbone.conv_encoder.model."
	var state []torch.Named
	for _, p := range nn.StateDict(m) {
		if len(p.Name) < len(prefix) || p.Name[:len(prefix)] != prefix {
			state = append(state, p)
		}
	}
	for _, p := range nn.StateDict(theirs) {
		if p.Name != "fc.weight" && p.Name != "fc.bias" {
			state = append(state, torch.Named{Name: prefix + p.Name, Tensor: p.Tensor})
		}
	}
	require.NoError(t, nn.SaveTensors(filepath.Join(dir, "model.safetensors"), state, nil))
	m, err = auto.ObjectDetection(t.Context(), dir, auto.Options{Warnings: io.Discard})
	require.NoError(t, err)
	assert.Empty(t, m.Report.Missing)
	assert.Empty(t, m.Report.Initialized)
	for _, u := range m.Report.Unexpected {
		assert.Contains(t, u.Name, "num_batches_tracked")
	}
	var ours *resnet.Backbone
	for _, n := range nn.Modules(m) {
		if b, ok := n.Module.(*resnet.Backbone); ok {
			ours = b
		}
	}
	require.NotNil(t, ours)
	nn.SetTraining(theirs, false)
	theirs.AvgPool, theirs.FC = nn.NewAdaptiveAvgPool2d(nn.Dims{1}), nn.NewFlatten()
	torch.NoGrad(func() {
		x := torch.Randn(1, 3, 64, 64)
		got := ours.Forward(x).MeanDim([]int64{2, 3}, false, torch.DefaultDType)
		golden.Close(t, "features", got, theirs.Forward(x), 1e-4, 1e-4)
	})
	again := t.TempDir()
	require.NoError(t, m.Save(again)) // under the names of transformers' ResNet
	_, err = auto.ObjectDetection(t.Context(), again, auto.Options{Warnings: io.Discard})
	require.NoError(t, err)
}

func TestSettingsOfDetectorsThatAreImpossibleAreRefused(t *testing.T) {
	load := func(dir string) error {
		_, err := auto.ObjectDetection(t.Context(), dir, auto.Options{FromConfig: true})
		return err
	}
	modeltest.Refuses(t, "yolos", map[string]string{
		`"image_size": 512`:                               "image_size is 512: want a list of height and width",
		`"image_size": [512, -3]`:                         "ImageSize.Width is -3",
		`"image_size": [510, 864]`:                        "ImageSize is 510x864 and PatchSize 16; want multiples of the patch",
		`"patch_size": 1000`:                              "PatchSize is 1000, but ImageSize is 512x864",
		`"num_attention_heads": 7`:                        "HiddenSize is 768",
		`"auxiliary_loss": true`:                          "auxiliary_loss is true; only false",
		`"class_cost": -1`:                                "class_cost is -1; want a number of at least 0",
		`"hidden_act": "mish"`:                            `HiddenAct: there is no activation "mish"`,
		`"num_detection_tokens": -5`:                      "NumDetectionTokens is -5",
		`"id2label": {"0": "one", "2": "two"}`:            `id2label has the key "2"`,
		`"class_cost": 0, "bbox_cost": 0, "giou_cost": 0`: "class_cost, bbox_cost and giou_cost are all 0",
	}, load)
	own := `"backbone_config": {"model_type": "resnet"}, `
	modeltest.Refuses(t, "detr", map[string]string{
		`"backbone": "convnext_tiny"`:                                      `the backbone is timm's "convnext_tiny"; want one of ["resnet101"`,
		`"backbone_config": {"model_type": "swin"}`:                        `backbone_config has the model_type "swin"; want resnet`,
		`"backbone_config": {"model_type": "resnet", "depths": [1]}`:       "backbone_config: HiddenSizes is",
		`"backbone_config": {"model_type": "resnet", "out_features": [3]}`: "out_features is [3]; want a list of names",
		`"backbone_config": {"model_type": "resnet", "out_features": ["stage3"]}`: `out_features is ["stage3"]; want ` +
			`"stage4" as the last`,
		own + `"dilation": true`:                                                         "dilation is true",
		own + `"encoder_layerdrop": 0.1`:                                                 "encoder_layerdrop is 0.1",
		own + `"position_embedding_type": "rotary"`:                                      `position_embedding_type is "rotary"; want "sine" or "learned"`,
		own + `"d_model": 12, "hidden_size": 13`:                                         "d_model is 12, but hidden_size, which means the same, is 13",
		own + `"d_model": 6, "encoder_attention_heads": 2, "decoder_attention_heads": 2`: "HiddenSize is 6; want a multiple of 4",
		own + `"decoder_attention_heads": 7`:                                             "HiddenSize is 256, which is no multiple of the 8 heads",
		own + `"dropout": 1`:                                                             "Dropout is 1",
		own + `"activation_function": "mish"`:                                            `activation_function: there is no activation "mish"`,
		own + `"eos_coefficient": -0.5`:                                                  "eos_coefficient is -0.5",
	}, load)
	_, err := auto.NewObjectDetection(vit.Config{}, nil)
	assert.ErrorContains(t, err, "a ViT is not for ForObjectDetection")
}

func TestWhatADetectorCannotTakeIsNamed(t *testing.T) {
	m := small(t, smallYolos, vision.ProcessorOptions{})
	task := m.Task()
	image := inputs.Image{Pixels: make([]float32, 3*16*16), Shape: []int64{3, 16, 16}}
	of := func(shape ...int64) detect.Sample {
		return detect.Sample{Image: inputs.Image{Pixels: make([]float32, 4), Shape: shape}}
	}
	nan := float32(math.NaN())
	labelled := func(class int64, b detect.Box) detect.Sample {
		return detect.Sample{Image: image, Labels: []detect.Label{{Class: class, Box: b}}}
	}
	for want, s := range map[string]detect.Sample{
		"Shape is [1 2 2]; the model takes [3 height width]": of(1, 2, 2),
		"Pixels has 4 values":                                of(3, 2, 2),
		"the image has 17x3 pixels of Shape":                 {Image: image, Height: 17, Width: 3},
		"Labels[0].Class is 2; want 0 to 1":                  labelled(2, detect.Box{Width: 1, Height: 1}),
		"Objects[0].Class is -1; want 0 to 1":                {Image: image, Objects: []detect.Object{{Class: -1}}},
		"want finite numbers, and a box with":                labelled(0, detect.Box{Width: 1}),
		"Labels[0].Box is {CenterX:NaN CenterY:0":            labelled(0, detect.Box{CenterX: nan, Width: 1, Height: 1}),
	} {
		_, err := task.Collate([]detect.Sample{{Image: image}, s})
		var wrong *detect.SampleError
		require.ErrorAs(t, err, &wrong)
		assert.Equal(t, 1, wrong.Index)
		assert.ErrorContains(t, err, want)
	}
	_, err := engine.New(task, engine.Options{NEFTuneAlpha: 5})
	require.ErrorContains(t, err, "NEFTuneAlpha is 5")
	_, err = engine.New(task, engine.Options{LabelSmoothing: 0.1})
	require.ErrorContains(t, err, "LabelSmoothing is 0.1")
	assert.ErrorContains(t, torch.Try(func() { m.Predictions(torch.Zeros(1, 3, 4, 9), torch.Tensor{}) }),
		"the pixels are [1 3 4 9]; want [B, 3, height, width], of at least a patch, 8x8")
	assert.ErrorContains(t, torch.Try(func() { m.Forward(torch.Zeros(1, 1), torch.Tensor{}, torch.Tensor{}) }),
		"ObjectDetector.Predictions")
	p := detect.Predictions{Logits: torch.Full(math.NaN(), 1, 2, 3), Boxes: torch.Zeros(1, 2, 4)}
	assert.ErrorContains(t, torch.Try(func() {
		m.LossSettings().Loss(p, detect.Labels{Counts: []int{1}, Classes: []int64{0}, Boxes: make([]detect.Box, 1)}, 1)
	}), "image 0 of the batch: the costs of the matching contain NaN")
	m.ImageProcessor = nil
	_, err = m.Predict(vision.NewImage(3, 3, 3), 0)
	assert.ErrorContains(t, err, "the model has no image processor")
	_, err = detect.NewTask(odd{m}, detect.TaskOptions{})
	assert.ErrorContains(t, err, "eos_coefficient is -1")
}

// odd is a model with impossible settings.
type odd struct{ *auto.ObjectDetector }

func (odd) LossSettings() detect.LossSettings {
	return detect.LossSettings{ClassCost: 1, EOSCoefficient: -1}
}

// TestOneClassIsEnough, though a classifier of one class would be a regression.
func TestOneClassIsEnough(t *testing.T) {
	y, d := smallYolos, smallDetr
	y.ID2Label, d.ID2Label = []string{"cat"}, []string{"cat"}
	for _, c := range []auto.Config{y, d} {
		m, dir := small(t, c, vision.ProcessorOptions{}), t.TempDir()
		require.NoError(t, m.Save(dir))
		text, err := os.ReadFile(filepath.Join(dir, "config.json"))
		require.NoError(t, err)
		assert.NotContains(t, string(text), "problem_type")
		again, err := auto.ObjectDetection(t.Context(), dir, auto.Options{Warnings: io.Discard})
		require.NoError(t, err)
		assert.Equal(t, []string{"cat"}, again.Head().ID2Label)
		im, _ := scene(0, 24, 16)
		found, err := again.Predict(im, 0)
		require.NoError(t, err)
		assert.Len(t, found, 5)
	}
}

// TestObjectsThatAreNotForTraining: crowds and what lies outside of the image.
func TestObjectsThatAreNotForTraining(t *testing.T) {
	m := small(t, smallYolos, vision.ProcessorOptions{})
	objects := []detect.Object{{Class: 1, X: -2, Y: 3, Width: 4, Height: 50}, {Crowd: true, Width: 5, Height: 5},
		{X: 24, Y: 1, Width: 2, Height: 2}, {X: 3, Y: 3}}
	im, _ := scene(0, 24, 16)
	s, err := m.Encode(im, objects)
	require.NoError(t, err)
	require.Len(t, s.Labels, 1)
	assert.Equal(t, fmt.Sprintf("%.4f", detect.Box{CenterX: 1. / 24, CenterY: 9.5 / 16, Width: 2. / 24, Height: 13. / 16}),
		fmt.Sprintf("%.4f", s.Labels[0].Box))
	assert.Equal(t, objects, s.Objects)
}
