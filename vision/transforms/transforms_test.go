package transforms_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/gotrainer/gotrainer/vision"
	"github.com/gotrainer/gotrainer/vision/transforms"
)

// recorded is the content of testdata/golden.json, recorded with torchvision.
type recorded struct {
	Cases []struct {
		Picture [3]int // width, height, channels
		Seed    uint64
		Steps   []struct {
			Kind   string
			Fields json.RawMessage
		}
		Results []struct {
			Shape  []int64
			SHA256 string
		}
		Next float64 // the number that PyTorch's generator draws next
	}
	Crops [][4]int // of seed 42
}

func load(t *testing.T) (r recorded) {
	t.Helper()
	text, err := os.ReadFile("testdata/golden.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &r))
	require.GreaterOrEqual(t, len(r.Cases), 60)
	return r
}

// picture returns the image defined by the formula of golden.py.
func picture(width, height, channels int) *vision.Image {
	im := vision.NewImage(width, height, channels)
	for i := range im.Pix {
		im.Pix[i] = uint8(uint32(i) * 2654435761 >> 13)
	}
	return im
}

// step decodes a transform from the JSON of its fields.
func step(t *testing.T, kind string, fields []byte) transforms.Transform {
	t.Helper()
	decode := func(to any) {
		d := json.NewDecoder(bytes.NewReader(fields))
		d.DisallowUnknownFields()
		require.NoError(t, d.Decode(to))
	}
	switch kind {
	case "Resize":
		var s transforms.Resize
		decode(&s)
		return s
	case "CenterCrop":
		var s transforms.CenterCrop
		decode(&s)
		return s
	case "RandomResizedCrop":
		var s transforms.RandomResizedCrop
		decode(&s)
		return s
	case "RandomHorizontalFlip":
		var s transforms.RandomHorizontalFlip
		decode(&s)
		return s
	case "RandomVerticalFlip":
		var s transforms.RandomVerticalFlip
		decode(&s)
		return s
	case "ColorJitter":
		var s transforms.ColorJitter
		decode(&s)
		return s
	case "ToTensor":
		return transforms.ToTensor{}
	case "Normalize":
		var s transforms.Normalize
		decode(&s)
		return s
	}
	t.Fatalf("a case has the step %s", kind)
	return nil
}

// content returns the shape and bytes of a prepared image in golden.py's form.
func content(p transforms.Picture) (shape []int64, data []byte) {
	if im := p.Image; im != nil {
		return []int64{int64(im.Channels), int64(im.Height), int64(im.Width)}, im.Pix
	}
	for _, v := range p.Pixels {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
	}
	return p.Shape, data
}

func TestImagesAreThoseOfTorchvision(t *testing.T) {
	for i, c := range load(t).Cases {
		var steps transforms.Compose
		for _, s := range c.Steps {
			steps = append(steps, step(t, s.Kind, s.Fields))
		}
		t.Run(fmt.Sprintf("%d/%+v/%v", i, steps, c.Picture), func(t *testing.T) {
			g := transforms.NewGenerator(c.Seed)
			im := picture(c.Picture[0], c.Picture[1], c.Picture[2])
			for k, want := range c.Results {
				p, err := steps.Run(im, g)
				require.NoError(t, err)
				shape, data := content(p)
				assert.Equal(t, want.Shape, shape, "image %d", k)
				sum := sha256.Sum256(data)
				assert.Equal(t, want.SHA256, hex.EncodeToString(sum[:]), "image %d has other bits", k)
			}
			assert.Equal(t, c.Next, float64(g.Uint32()&(1<<24-1))*0x1p-24, "the generator has drawn other numbers")
			assert.Equal(t, picture(c.Picture[0], c.Picture[1], c.Picture[2]), im, "the image has changed")
		})
	}
}

func TestASeedGivesTheCropsOfPython(t *testing.T) {
	g := transforms.NewGenerator(42)
	for i, want := range load(t).Crops {
		got, err := transforms.RandomResizedCrop{Size: 8}.Params(150+i*7%400, 200+i%300, g)
		require.NoError(t, err)
		require.Equal(t, transforms.Crop{Top: want[0], Left: want[1], Height: want[2], Width: want[3]}, got, "crop %d",
			i)
	}
}

func TestMistakesAreNamed(t *testing.T) {
	colour := picture(6, 5, 3)
	numbers := transforms.ToTensor{}
	for _, c := range []struct {
		step transforms.Transform
		want string
	}{
		{transforms.Resize{}, "want Size alone or with MaxSize"},
		{transforms.Resize{Size: 3, Height: 2, Width: 2}, "want Size alone or with MaxSize"},
		{transforms.Resize{Size: 3, MaxSize: 3}, "want more than Size, which is 3"},
		{transforms.Resize{Size: 3, Interpolation: "cubic"}, `the interpolation is "cubic"; want bilinear`},
		{transforms.CenterCrop{Height: 3}, "want Size alone, or Height and Width"},
		{transforms.RandomResizedCrop{Size: -1}, "want Size alone, or Height and Width"},
		{transforms.RandomResizedCrop{Size: 3, Scale: [2]float64{1, 0.5}}, "want the lesser number first"},
		{transforms.RandomResizedCrop{Size: 3, Ratio: [2]float64{0, 1}}, "a Ratio above zero"},
		{transforms.RandomHorizontalFlip{P: 2}, "P is 2: want 0 to 1"},
		{transforms.RandomVerticalFlip{P: math.NaN()}, "P is NaN: want 0 to 1"},
		{transforms.ColorJitter{Brightness: [2]float64{2, 1}}, "Brightness is [2 1]: want the lesser number first"},
		{transforms.ColorJitter{Hue: [2]float64{0, 1}}, "from -0.5 to 0.5"},
		{transforms.Normalize{Mean: []float64{1}, Std: []float64{1}}, "put it behind ToTensor"},
		{nil, "step 0 is nil"},
		{transforms.Compose{numbers, numbers}, "want one ToTensor"},
		{transforms.Compose{numbers, transforms.Resize{Size: 3}}, "put it before ToTensor"},
		{transforms.Compose{numbers, transforms.CenterCrop{Size: 3}}, "put it before ToTensor"},
		{transforms.Compose{numbers, transforms.RandomResizedCrop{Size: 3}}, "put it before ToTensor"},
		{transforms.Compose{numbers, transforms.RandomVerticalFlip{}}, "put it before ToTensor"},
		{transforms.Compose{numbers, transforms.ColorJitter{}}, "put it before ToTensor"},
		{transforms.Compose{numbers, transforms.Normalize{Mean: []float64{1, 2}, Std: []float64{1}}}, "for 3 channels"},
		{transforms.Compose{numbers, transforms.Normalize{Mean: []float64{0}, Std: []float64{1e-60}}},
			"want another number"},
	} {
		_, err := transforms.Compose{c.step}.Run(colour, transforms.NewGenerator(1))
		assert.ErrorContains(t, err, c.want, "%+v", c.step)
	}
	for _, step := range []transforms.Transform{transforms.RandomResizedCrop{Size: 3},
		transforms.RandomHorizontalFlip{},
		transforms.ColorJitter{}} {
		_, err := transforms.Compose{step}.Run(colour, nil)
		assert.ErrorContains(t, err, "the generator is nil; want NewGenerator(seed)")
	}
	_, err := transforms.Compose{}.Run(nil, nil)
	assert.ErrorContains(t, err, "want one of at least 1x1")
	_, err = transforms.Compose{}.Open(filepath.Join(t.TempDir(), "none.png"), nil)
	assert.ErrorIs(t, err, os.ErrNotExist)
}

// TestCropsAreInTheImage draws any image, seed and setting.
func TestCropsAreInTheImage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		height, width := rapid.IntRange(1, 300).Draw(t, "height"), rapid.IntRange(1, 300).Draw(t, "width")
		least := rapid.Float64Range(0, 1).Draw(t, "least")
		narrow := rapid.Float64Range(0.01, 5).Draw(t, "narrow")
		c := transforms.RandomResizedCrop{Size: 3, Scale: [2]float64{least, 1}, Ratio: [2]float64{narrow, narrow * 2}}
		box, err := c.Params(height, width, rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)))
		if err != nil {
			t.Fatal(err)
		}
		if box.Top < 0 || box.Left < 0 || box.Height < 0 || box.Width < 0 || box.Top+box.Height > height ||
			box.Left+box.Width > width {
			t.Fatalf("%+v is not in %dx%d", box, width, height)
		}
	})
}

func ExampleCompose() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "picture.bmp")
	if err := os.WriteFile(path, bitmap, 0o666); err != nil {
		panic(err)
	}
	train := transforms.Compose{
		transforms.RandomResizedCrop{Size: 224},
		transforms.RandomHorizontalFlip{},
		transforms.ToTensor{},
		transforms.Normalize{Mean: transforms.ImageNetMean, Std: transforms.ImageNetStd},
	}
	p, err := train.Open(path, transforms.NewGenerator(42))
	fmt.Println(len(p.Pixels), p.Shape, err)
	// Output: 150528 [3 224 224] <nil>
}

// bitmap is a BMP file of one blue pixel.
var bitmap = append(append([]byte("BM\x3a\x00\x00\x00\x00\x00\x00\x00\x36\x00\x00\x00\x28\x00\x00\x00"+
	"\x01\x00\x00\x00\x01\x00\x00\x00\x01\x00\x18\x00\x00\x00\x00\x00\x04"), make([]byte, 19)...), 0xff, 0, 0, 0)
