package idx_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/data/idx"
)

var _ data.Dataset[idx.Sample] = (*idx.Set)(nil)

// file returns an IDX file of uint8.
func file(content string, shape ...byte) []byte {
	f := []byte{0, 0, 8, byte(len(shape))}
	for _, d := range shape {
		f = append(f, 0, 0, 0, d)
	}
	return append(f, content...)
}

func zipped(t testing.TB, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestRead(t *testing.T) {
	for _, c := range []struct {
		name string
		file []byte
		want idx.Array
	}{
		{"a vector", file("abc", 3), idx.Array{Type: idx.Uint8, Shape: []int{3}, Data: []byte("abc")}},
		{"a compressed matrix", zipped(t, file("abcdef", 2, 3)), idx.Array{Type: idx.Uint8, Shape: []int{2, 3},
			Data: []byte("abcdef")}},
		{"a scalar", []byte{0, 0, 9, 0, 7}, idx.Array{Type: idx.Int8, Data: []byte{7}}},
		{"wider elements", []byte{0, 0, 0x0b, 1, 0, 0, 0, 2, 1, 2, 3, 4}, idx.Array{Type: idx.Int16, Shape: []int{2},
			Data: []byte{1, 2, 3, 4}}},
		{"an empty array", file("", 0, 28, 28), idx.Array{Type: idx.Uint8, Shape: []int{0, 28, 28}, Data: []byte{}}},
	} {
		got, err := idx.Read(bytes.NewReader(c.file))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if diff := cmp.Diff(c.want, *got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	whole := zipped(t, file("abcdef", 2, 3))
	flipped := bytes.Clone(whole)
	flipped[len(flipped)-6] ^= 1 // in the checksum
	corrupt := bytes.Clone(whole)
	corrupt[10] |= 6 // the first block has a type that deflate does not define
	for _, c := range []struct {
		name string
		file []byte
		want string
	}{
		{"gzip with a corrupt block", corrupt, "breaks in the magic number: flate: corrupt input"},
		{"an empty file", nil, "breaks in the magic number"},
		{"another format", []byte("\x89PNG\r\n\x1a\n"), "it begins with 89 50 4e 47"},
		{"an unknown type", []byte{0, 0, 0x0a, 0}, "a type (08, 09, 0b to 0e)"},
		{"a shape that is cut short", []byte{0, 0, 8, 2, 0, 0, 0, 1, 0}, "breaks in the shape"},
		{"too few bytes", file("ab", 3), "uint8[3] needs 3 bytes, found 2"},
		{"too many bytes", file("abcd", 3), "needs 3 bytes, found more"},
		{"a shape beyond any file", append([]byte{0, 0, 8, 3}, bytes.Repeat([]byte{0xff}, 12)...),
			"more bytes than any file"},
		{"a claim of many bytes", []byte{0, 0, 8, 1, 0x7f, 0xff, 0xff, 0xff, 1}, "needs 2147483647 bytes, found 1"},
		{"a compressed claim of many bytes", zipped(t, []byte{0, 0, 8, 1, 0x7f, 0xff, 0xff, 0xff, 1}),
			"needs 2147483647 bytes, found 1"},
		{"a compressed file of more than its shape", zipped(t, append(file("abc", 3), make([]byte, 1<<20)...)),
			"needs 3 bytes, found more"},
		{"gzip cut short", whole[:len(whole)-9], "breaks in the data"},
		{"gzip with a wrong checksum", flipped, "breaks in the data"},
		{"gzip header cut short", whole[:5], "unexpected EOF"},
	} {
		_, err := idx.Read(bytes.NewReader(c.file))
		if !errors.Is(err, idx.ErrFormat) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: Read = %v, want ErrFormat with %q", c.name, err, c.want)
		}
	}
	if _, err := idx.Read(io.MultiReader(bytes.NewReader(file("a", 3)), brokenDisk{})); errors.Is(err, idx.ErrFormat) ||
		!errors.Is(err, errDisk) {
		t.Errorf("a disk error gave %v, want that error and not ErrFormat", err)
	}
}

var errDisk = errors.New("disk")

type brokenDisk struct{}

func (brokenDisk) Read([]byte) (int, error) { return 0, errDisk }

// write writes files into a new folder and returns its path.
func write(t testing.TB, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestOpenFindsTheUsualNames(t *testing.T) {
	images, labels := file("abcdefgh", 2, 2, 2), file("\x03\x09", 2)
	for _, files := range []map[string][]byte{
		{"train-images-idx3-ubyte": images, "train-labels-idx1-ubyte": labels},
		{"train-images-idx3-ubyte.gz": zipped(t, images), "train-labels-idx1-ubyte.gz": zipped(t, labels)},
		{"train-images.idx3-ubyte": images, "train-labels.idx1-ubyte": labels},
	} {
		set, err := idx.Open(filepath.Join(write(t, files), "train"))
		if err != nil {
			t.Fatal(err)
		}
		if set.Len() != 2 || set.Height != 2 || set.Width != 2 || set.Classes != 10 {
			t.Errorf("set = %d images of %dx%d, %d classes, want 2 of 2x2, 10", set.Len(), set.Height, set.Width,
				set.Classes)
		}
		got, err := set.At(1)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(idx.Sample{Image: []byte("efgh"), Label: 9}, got); diff != "" {
			t.Errorf("At(1) (-want +got):\n%s", diff)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	images, labels := file("abcdefgh", 2, 2, 2), file("\x03\x09", 2)
	for _, c := range []struct {
		name  string
		files map[string][]byte
		want  string
	}{
		{"missing images name what was tried", map[string][]byte{"train-labels-idx1-ubyte": labels},
			"train-images.idx3-ubyte.gz"},
		{"missing labels", map[string][]byte{"train-images-idx3-ubyte": images}, "train-labels-idx1-ubyte"},
		{"a damaged file is named", map[string][]byte{"train-images-idx3-ubyte": images[:9],
			"train-labels-idx1-ubyte": labels}, "train-images-idx3-ubyte: idx: "},
		{"more labels than images", map[string][]byte{"train-images-idx3-ubyte": images,
			"train-labels-idx1-ubyte": file("abc", 3)}, "2 images but 3 labels"},
		{"labels for images", map[string][]byte{"train-images-idx3-ubyte": labels, "train-labels-idx1-ubyte": labels},
			"expected uint8 of [n, height, width]"},
		{"images for labels", map[string][]byte{"train-images-idx3-ubyte": images, "train-labels-idx1-ubyte": images},
			"expected uint8 of [n]"},
	} {
		_, err := idx.Open(filepath.Join(write(t, c.files), "train"))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: Open = %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := idx.Open(filepath.Join(t.TempDir(), "x")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Open of nothing = %v, want fs.ErrNotExist", err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(file("abc", 3))
	f.Add(zipped(f, file("abcdef", 2, 3)))
	f.Add([]byte{0, 0, 0x0e, 1, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8})
	f.Fuzz(func(t *testing.T, content []byte) {
		a, err := idx.Read(bytes.NewReader(content))
		if err != nil {
			return
		}
		n := a.Type.Size()
		for _, d := range a.Shape {
			n *= d
		}
		if n != len(a.Data) {
			t.Fatalf("%v%v with %d bytes", a.Type, a.Shape, len(a.Data))
		}
	})
}

func Example() {
	set, err := idx.NewSet(
		&idx.Array{Type: idx.Uint8, Shape: []int{2, 1, 3}, Data: []byte{0, 128, 255, 1, 2, 3}},
		&idx.Array{Type: idx.Uint8, Shape: []int{2}, Data: []byte{7, 0}},
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	sample, err := set.At(0)
	fmt.Println(set.Len(), set.Classes, sample.Image, sample.Label, err)
	example, err := set.Examples().At(0) // for engine.Classify
	fmt.Println(example.Features, example.Class, err)
	// Output:
	// 2 8 [0 128 255] 7 <nil>
	// [0 0.5019608 1] 7 <nil>
}
