package vectors

import (
	"encoding/json"
	"path/filepath"

	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/compat/hezar/preprocessors"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/internal/tensorio"
	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/vision"
)

// imageCase is an entry of cases.json.
type imageCase struct {
	Case   string
	Config json.RawMessage
	Shape  []int64
	Error  string // what Hezar said where it failed
}

func images(name, dir string, text []byte) []Outcome {
	var index struct{ Cases []imageCase }
	err := json.Unmarshal(text, &index)
	if err == nil {
		err = loaded()
	}
	if err != nil {
		return []Outcome{{Name: name, Err: err}}
	}
	f, err := safetensors.Open(filepath.Join(dir, "case.safetensors"))
	if err != nil {
		return []Outcome{{Name: name, Err: err}}
	}
	defer f.Close() //nolint:errcheck // it was only read
	outcomes := make([]Outcome, len(index.Cases))
	for i, k := range index.Cases {
		outcomes[i] = try(name+"/"+k.Case, func(c *check) error { return image(c, k, f.Reader) })
	}
	return outcomes
}

// imageConfig reads a recorded config, and refuses what it does not know.
func imageConfig(raw json.RawMessage) (c preprocessors.ImageProcessorConfig, written omegaconf.Map, err error) {
	if written, err = mapping(raw); err != nil {
		return c, nil, err
	}
	if err = known(written, "name", "config_type", "mean", "std", "rescale", "resample", "size", "mirror",
		"gray_scale"); err != nil {
		return c, nil, err
	}
	c, err = preprocessors.ParseImageProcessor(written)
	return c, written, err
}

// processor makes an image processor of a recorded config.
func processor(raw json.RawMessage) (*preprocessors.ImageProcessor, error) {
	config, _, err := imageConfig(raw)
	if err != nil {
		return nil, err
	}
	return preprocessors.NewImageProcessor(config)
}

// image compares what becomes of a picture by Hezar's steps, and by the image processor, where it
// takes the config and the picture is one whose layout Hezar understands.
func image(c *check, k imageCase, f *safetensors.Reader) error {
	config, written, err := imageConfig(k.Config)
	if err != nil && k.Error != "" {
		return nil // refused here too
	}
	if err != nil {
		return err
	}
	in, err := picture(f, "in."+k.Case)
	if err != nil {
		return err
	}
	got, err := likeHezar(in, config, written)
	if k.Error != "" {
		if err == nil {
			c.fail("a picture of shape %v is taken; Hezar says %s", in.shape, k.Error)
		}
		return nil
	}
	if err != nil {
		return err
	}
	want, err := tensorio.Read(f, "out."+k.Case)
	if err != nil {
		return err
	}
	same(c, "Hezar's steps", got.shape, got.toFloats().floats, want)
	c.equal("the recorded shape", append([]int64{1}, want.Shape()...), k.Shape)
	p, err := preprocessors.NewImageProcessor(config)
	if err != nil || len(in.shape) != 3 || in.shape[2] != 3 {
		return nil
	}
	im := &vision.Image{Pix: in.bytes, Width: in.shape[1], Height: in.shape[0], Channels: 3}
	channels, height, width := p.Shape(im)
	if scale, _ := written.Get("rescale"); im.Height <= 3 || height <= 3 || width <= 3 || im.Width <= 3 ||
		scale == int64(1) {
		return nil
	}
	pixels, err := p.Process(im)
	if err != nil {
		return err
	}
	floats := make([]float64, len(pixels))
	for i, v := range pixels {
		floats[i] = float64(v)
	}
	same(c, "the image processor", []int{channels, height, width}, floats, want)
	return nil
}

// same compares pictures to the last bit.
func same(c *check, what string, shape []int, values []float64, recorded torch.Tensor) {
	var got []int64
	for _, d := range shape {
		got = append(got, int64(d))
	}
	c.equal("the shape by "+what, got, append([]int64{}, recorded.Shape()...))
	want := torch.Values[float32](recorded)
	for i := range min(len(want), len(values)) {
		if v := float32(values[i]); v != want[i] && (v == v || want[i] == want[i]) {
			c.fail("by %s value %d is %v, recorded is %v", what, i, v, want[i])
		}
	}
}

// picture reads the bytes of a picture: [height, width], or with channels.
func picture(f *safetensors.Reader, name string) (array, error) {
	t, err := tensorio.Read(f, name)
	if err != nil {
		return array{}, err
	}
	if n := t.Dim(); (n != 2 && n != 3) || t.DType() != torch.Uint8 {
		return array{}, spec.Unsupportedf("a picture of type %s%v; want bytes of two or three dimensions", t.DType(),
			t.Shape())
	}
	a := array{bytes: torch.Values[uint8](t)}
	for _, d := range t.Shape() {
		a.shape = append(a.shape, int(d))
	}
	return a, nil
}
