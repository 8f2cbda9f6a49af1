package preprocessors_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/compat/hezar/preprocessors"
	"github.com/gotrainer/gotrainer/vision"
)

// The pictures of testdata/images are compared by internal/conformance/vectors, which can read
// them.

func TestWhatPythonSavedComesBackAsItWas(t *testing.T) {
	set, err := preprocessors.Load("testdata/model")
	if err != nil {
		t.Fatal(err)
	}
	if set.Image == nil || set.Normalizer == nil || set.Tokenizer == nil {
		t.Fatalf("loaded %+v; want all three preprocessors", set)
	}
	if got := set.Normalizer.Normalize("علي  كتاب"); got != "علی كتاب" {
		t.Errorf("normalized to %q", got)
	}
	dir := t.TempDir()
	if err := set.Save(dir); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{preprocessors.ImageProcessorFile, preprocessors.NormalizerFile,
		preprocessors.TokenizerFile} {
		want, err := os.ReadFile(filepath.Join("testdata/model/preprocessor", file))
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(dir, "preprocessor", file))
		if err != nil {
			t.Fatal(err)
		}
		// Hezar writes this but cannot load it.
		text := strings.Replace(string(want), "config_type: PREPROCESSOR", "config_type: preprocessor", 1)
		if diff := cmp.Diff(text, string(got)); diff != "" {
			t.Errorf("%s: %s", file, diff)
		}
	}
	again, err := preprocessors.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	a, err := set.Tokenizer.Encode("کتابها خوب", nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := again.Tokenizer.Encode("کتابها خوب", nil)
	if err != nil || !cmp.Equal(a.IDs, b.IDs) || again.Tokenizer.Config.PaddingSide != "left" {
		t.Errorf("the tokenizer came back with %v (%v) and side %q, want %v and left", b, err,
			again.Tokenizer.Config.PaddingSide, a.IDs)
	}
}

func TestATokenizerMadeHereHasAConfig(t *testing.T) {
	set, err := preprocessors.Load("testdata/model")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := (&preprocessors.Set{Tokenizer: set.Tokenizer}).Save(dir); err != nil {
		t.Fatal(err)
	}
	again, err := preprocessors.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(set.Tokenizer.Config, again.Tokenizer.Config); diff != "" || again.Image != nil ||
		again.Normalizer != nil {
		t.Errorf("came back as %+v: %s", again, diff)
	}
}

func TestAFolderWithoutPreprocessorsHasNone(t *testing.T) {
	dir := t.TempDir()
	set, err := preprocessors.Load(dir)
	if err != nil || set.Image != nil || set.Normalizer != nil || set.Tokenizer != nil {
		t.Errorf("loaded %+v (%v)", set, err)
	}
	if err := set.Save(dir); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("an empty set wrote %v (%v)", entries, err)
	}
}

func TestMistakesAreNamed(t *testing.T) {
	for _, c := range []struct{ claim, yaml, want string }{
		{"another kind", "name: text_normalizer", "want image_processor"},
		{"a mean of words", "name: image_processor\nmean: [a]", "mean is [a]; want a number"},
		{"a size of three", "size: [1, 2, 3]", "size is [1 2 3]; want width and height"},
		{"a size of one side", "size: [4, 0]", "want both sides positive"},
		{"a mirror of seven", "mirror: 7", "mirror is 7; want true or false"},
		{"no filter", "resample: 9", "resample"},
		{"nothing left", "rescale: 0", "every picture black"},
		{"two means", "rescale: 0.5\nmean: [1, 2]\nstd: [1, 2]", "2 values of mean for 3 channels"},
		{"no YAML", "a: [", "image_processor_config.yaml"},
	} {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "preprocessor"), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "preprocessor", preprocessors.ImageProcessorFile), []byte(c.yaml),
			0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := preprocessors.Load(dir); err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), preprocessors.ImageProcessorFile) {
			t.Errorf("%s: error %v, want the file's name and %q in it", c.claim, err, c.want)
		}
	}
}

func TestConfigsSurviveTheirFile(t *testing.T) {
	finite := rapid.Float64Range(-100, 100)
	rapid.Check(t, func(t *rapid.T) {
		want := preprocessors.ImageProcessorConfig{Mirror: rapid.Bool().Draw(t, "mirror"),
			GrayScale: rapid.Bool().Draw(t, "gray")}
		if rapid.Bool().Draw(t, "normalized") {
			want.Mean, want.Std = rapid.SliceOfN(finite, 1, 3).Draw(t, "mean"), rapid.SliceOfN(finite, 1, 3).Draw(t,
				"std")
		}
		if rapid.Bool().Draw(t, "rescaled") {
			want.Rescale = new(finite.Draw(t, "rescale"))
		}
		if rapid.Bool().Draw(t, "resized") {
			want.Width, want.Height = rapid.IntRange(1, 999).Draw(t, "width"), rapid.IntRange(1, 999).Draw(t, "height")
			want.Resample = new(rapid.IntRange(0, 5).Draw(t, "resample"))
		}
		text, err := omegaconf.Marshal(want.Map())
		if err != nil {
			t.Fatal(err)
		}
		m, err := omegaconf.Unmarshal(text)
		if err != nil {
			t.Fatal(err)
		}
		got, err := preprocessors.ParseImageProcessor(m)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Fatalf("%v %s\n%s", err, diff, text)
		}
	})
}

// FuzzImageProcessor parses damaged configs, and processes pictures of unusual sizes with those
// that are accepted.
func FuzzImageProcessor(f *testing.F) {
	f.Add("name: image_processor\nsize: [7, 3]\nmirror: true\ngray_scale: true\nrescale: 0.1\nmean: [0.5]\nstd: "+
		"[0.5]\nresample: 1", uint8(5), uint8(9))
	f.Add("mean: [3]\nstd: [2]", uint8(1), uint8(1))
	f.Add("size: [1, 1]", uint8(3), uint8(2))
	f.Fuzz(func(t *testing.T, text string, width, height uint8) {
		m, err := omegaconf.Unmarshal([]byte(text))
		if err != nil {
			return
		}
		c, err := preprocessors.ParseImageProcessor(m)
		if err != nil || c.Width > 500 || c.Height > 500 {
			return
		}
		p, err := preprocessors.NewImageProcessor(c)
		if err != nil {
			return
		}
		im := vision.NewImage(int(width)+1, int(height)+1, 3)
		pixels, err := p.Process(im)
		if err != nil {
			t.Fatal(err)
		}
		if channels, h, w := p.Shape(im); len(pixels) != channels*h*w {
			t.Fatalf("%d values of shape %d x %d x %d", len(pixels), channels, h, w)
		}
	})
}

func ExampleImageProcessor_Process() {
	p, err := preprocessors.NewImageProcessor(preprocessors.ImageProcessorConfig{GrayScale: true, Mirror: true,
		Width: 4, Height: 2, Rescale: new(1 / 255.)})
	if err != nil {
		fmt.Println(err)
		return
	}
	im := vision.NewImage(4, 2, 3)
	im.Pix[0], im.Pix[1], im.Pix[2] = 255, 255, 255 // white, in the upper left corner
	pixels, err := p.Process(im)
	fmt.Println(pixels, err)
	// Output: [0 0 0 1 0 0 0 0] <nil>
}

// Processed pictures of floats are compared with Hezar by internal/conformance/vectors.
func TestPicturesOfNumbersThatCannotBe(t *testing.T) {
	colour := &preprocessors.Floats{Pix: make([]float32, 60), Width: 5, Height: 4, Channels: 3}
	for _, c := range []struct {
		config  preprocessors.ImageProcessorConfig
		picture any
		want    string
	}{
		{preprocessors.ImageProcessorConfig{Mirror: true}, colour, "make a *vision.Image of it"},
		{preprocessors.ImageProcessorConfig{GrayScale: true}, colour, "make a *vision.Image of it"},
		{preprocessors.ImageProcessorConfig{Width: 3, Height: 3}, colour, "make a *vision.Image of it"},
		{preprocessors.ImageProcessorConfig{}, &preprocessors.Floats{Pix: make([]float32, 5), Width: 5, Height: 4,
			Channels: 3}, "5 numbers is 5x4 with 3 channels"},
		{preprocessors.ImageProcessorConfig{Mean: []float64{1, 2, 3}, Std: []float64{1, 2, 3}},
			&preprocessors.Floats{Pix: make([]float32, 20), Width: 5, Height: 4, Channels: 1},
			"3 and 3 numbers for 1 channels"},
		{preprocessors.ImageProcessorConfig{Mean: []float64{0.5}, Std: []float64{0.3}}, vision.NewImage(2, 2, 3),
			"a std of 1 to 255"},
	} {
		p, err := preprocessors.NewImageProcessor(c.config)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := p.Read(c.picture); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want one with %q", c.config, err, c.want)
		}
	}
}
