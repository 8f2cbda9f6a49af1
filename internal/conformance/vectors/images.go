package vectors

import (
	"encoding/json"
	"fmt"
	"path/filepath"

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

// processor makes an image processor of a recorded config, and refuses what it does not know.
func processor(raw json.RawMessage) (*preprocessors.ImageProcessor, error) {
	m, err := mapping(raw)
	if err != nil {
		return nil, err
	}
	if err := known(m, "name", "config_type", "mean", "std", "rescale", "resample", "size", "mirror", "gray_scale"); err != nil {
		return nil, err
	}
	config, err := preprocessors.ParseImageProcessor(m)
	if err != nil {
		return nil, err
	}
	return preprocessors.NewImageProcessor(config)
}

func image(c *check, k imageCase, f *safetensors.Reader) error {
	p, err := processor(k.Config)
	if err != nil && k.Error != "" {
		return nil // refused here too
	}
	if err != nil {
		return err
	}
	if k.Error != "" {
		return spec.Unsupportedf("a picture that Hezar fails on: %s", k.Error)
	}
	in, err := picture(f, "in."+k.Case)
	if err != nil {
		return err
	}
	want, err := tensorio.Read(f, "out."+k.Case)
	if err != nil {
		return err
	}
	pixels, shape, err := p.ProcessLikeHezar(in)
	if err != nil {
		return err
	}
	got := []int64{int64(shape[0]), int64(shape[1]), int64(shape[2])}
	c.equal("the shape", got, append([]int64{}, want.Shape()...))
	c.equal("the recorded shape", append([]int64{1}, got...), k.Shape)
	values := torch.Values[float32](want)
	for i := range min(len(values), len(pixels)) {
		if pixels[i] != values[i] {
			c.fail("value %d is %v, recorded is %v", i, pixels[i], values[i])
		}
	}
	return nil
}

// picture reads the bytes of a picture, [height, width, channels].
func picture(f *safetensors.Reader, name string) (*vision.Image, error) {
	t, err := tensorio.Read(f, name)
	if err != nil {
		return nil, err
	}
	shape := t.Shape()
	if len(shape) != 3 || shape[2] != 3 || t.DType() != torch.Uint8 {
		return nil, spec.Unsupportedf("a picture of type %s%v; want bytes with three channels", t.DType(), fmt.Sprint(shape))
	}
	return &vision.Image{Pix: torch.Values[uint8](t), Width: int(shape[1]), Height: int(shape[0]), Channels: 3}, nil
}
