package vectors

import (
	"encoding/json"
	"slices"

	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/compat/hezar/preprocessors"
	"github.com/gotrainer/gotrainer/internal/conformance/recorded"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/vision"
)

// imageCase is an entry of cases.json.
type imageCase struct {
	Case   string
	Config json.RawMessage
	Shape  []int64
	Error  string // Hezar's error, if it failed
}

func images(name, dir string, text []byte) (outcomes []Outcome) {
	var cases []imageCase
	var tensors map[string]torch.Tensor
	if o := try(name, func(*check) {
		cases = decode[struct{ Cases []imageCase }](text).Cases
		tensors = tensorsOf(dir)
	}); o.Err != nil {
		return []Outcome{o}
	}
	for _, k := range cases {
		outcomes = append(outcomes, try(name+"/"+k.Case, func(c *check) { image(c, k, tensors) }))
	}
	return outcomes
}

// imageFields are the settings of an image processor.
var imageFields = []string{"name", "config_type", "mean", "std", "rescale", "resample", "size", "mirror", "gray_scale"}

// imageConfig parses a recorded config; unknown settings make the case unsupported.
func imageConfig(raw json.RawMessage) (c preprocessors.ImageProcessorConfig, written omegaconf.Map) {
	o := spec.Must(spec.ParseObject(raw))
	written = recorded.Config(o.Map()).(omegaconf.Map)
	for _, name := range o.Names() {
		if !slices.Contains(imageFields, name) {
			spec.Refusef("the field %v of the image processor", name)
		}
	}
	return spec.Must(preprocessors.ParseImageProcessor(written)), written
}

// image compares a picture processed by Hezar's steps and by the image processor, if the latter
// accepts the config and Hezar recognises the layout of the picture.
func image(c *check, k imageCase, tensors map[string]torch.Tensor) {
	var config preprocessors.ImageProcessorConfig
	var written omegaconf.Map
	var in, got torch.Tensor
	err := recorded.Try(func() { config, written = imageConfig(k.Config) })
	if err == nil {
		in = picture(tensors["in."+k.Case])
		err = recorded.Try(func() { got = likeHezar(in, config, written) })
	}
	if k.Error != "" {
		if err == nil {
			spec.Failf("a picture of shape %v is taken; Hezar says %s", in.Shape(), k.Error)
		}
		return // refused here as well
	}
	spec.Check(err)
	want := tensors["out."+k.Case]
	same(c, "Hezar's steps", got, want)
	c.equal("the recorded shape", append([]int64{1}, want.Shape()...), k.Shape)
	p, err := preprocessors.NewImageProcessor(config)
	if err != nil {
		return
	}
	scale, _ := written.Get("rescale")
	height, width := in.Size(0), in.Size(1)
	if shape := want.Shape(); len(shape) != 3 || min(height, width, shape[1], shape[2]) <= 3 || scale == int64(1) {
		return
	}
	var of any
	switch channels := int(in.Numel() / (height * width)); {
	case in.DType() == torch.Float32 && (channels == 1 || channels == 3):
		of = &preprocessors.Floats{Pix: torch.Values[float32](in), Width: int(width), Height: int(height),
			Channels: channels}
	case in.DType() == torch.Uint8 && in.Dim() == 3 && channels == 3:
		of = &vision.Image{Pix: torch.Values[uint8](in), Width: int(width), Height: int(height), Channels: 3}
	default:
		return
	}
	pixels, shape, err := p.Read(of)
	spec.Check(err)
	same(c, "the image processor", torch.From(pixels, int64(shape[0]), int64(shape[1]), int64(shape[2])), want)
}

// same compares pictures bitwise.
func same(c *check, what string, got, recorded torch.Tensor) {
	c.equal("the shape by "+what, got.Shape(), recorded.Shape())
	values, want := torch.Values[float32](got.ToDType(torch.Float32)), torch.Values[float32](recorded)
	for i, v := range values {
		if v != want[i] && (v == v || want[i] == want[i]) {
			spec.Failf("by %s value %d is %v, recorded is %v", what, i, v, want[i])
		}
	}
}

// picture checks that a tensor is a picture of bytes or floats: [height, width], or with channels.
func picture(t torch.Tensor) torch.Tensor {
	switch d := t.DType(); {
	case t.Dim() != 2 && t.Dim() != 3, d != torch.Uint8 && d != torch.Float32 && d != torch.Float64:
		spec.Refusef("a picture of type %s%v; want bytes, float32 or float64 of two or three dimensions", d, t.Shape())
	}
	return t
}
