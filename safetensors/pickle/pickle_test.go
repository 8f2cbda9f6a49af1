package pickle_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/safetensors/pickle"
)

func open(t *testing.T, name string) *pickle.File {
	t.Helper()
	f, err := pickle.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// TestTensorsAreThoseThatTorchLoads compares with the results of torch.load, saved as safetensors.
func TestTensorsAreThoseThatTorchLoads(t *testing.T) {
	for _, c := range []struct{ file, want string }{
		{"state.bin", "state"},
		{"legacy.bin", "state"},
		{"newer.bin", "newer"},
		{"checkpoint.pt", "checkpoint"},
		{"protocol4.pt", "checkpoint"},
		{"protocol5.pt", "checkpoint"},
	} {
		t.Run(c.file, func(t *testing.T) {
			f := open(t, c.file)
			want, err := safetensors.Open(filepath.Join("testdata", c.want+".safetensors"))
			if err != nil {
				t.Fatal(err)
			}
			defer want.Close() //nolint:errcheck // it was only read
			if got, n := len(f.Tensors()), len(want.Tensors()); got != n {
				t.Errorf("%d tensors, want %d", got, n)
			}
			for _, w := range want.Tensors() {
				got, ok := f.Tensor(w.Name)
				if !ok {
					t.Errorf("there is no tensor %s", w.Name)
					continue
				}
				if got.DType != w.DType || !slices.Equal(got.Shape, w.Shape) || got.Size() != w.Size {
					t.Errorf("%s is %s%v of %d bytes, want %s%v of %d", w.Name, got.DType, got.Shape, got.Size(),
						w.DType, w.Shape, w.Size)
				}
				data, err := f.Read(w.Name)
				if err != nil {
					t.Fatal(err)
				}
				wanted, err := want.Read(w.Name)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(data, wanted) {
					t.Errorf("%s is % x, want % x", w.Name, data, wanted)
				}
			}
		})
	}
}

func TestOrderIsThatOfTheDictionary(t *testing.T) {
	var names []string
	for _, tensor := range open(t, "state.bin").Tensors() {
		names = append(names, tensor.Name)
	}
	if want := []string{"contiguous", "transposed", "sliced", "shared", "scalar", "empty", "parameter",
		"ones"}; !slices.Equal(names[:8], want) {
		t.Errorf("the names are %q, want first %q", names, want)
	}
}

func TestOtherValuesAreKept(t *testing.T) {
	for _, name := range []string{"checkpoint.pt", "protocol4.pt", "protocol5.pt"} {
		root, ok := open(t, name).Value().(*pickle.Dict)
		if !ok {
			t.Fatalf("%s holds no dictionary", name)
		}
		for key, want := range map[string]any{
			"epoch": int64(3), "best": 0.5, "name": "run é", "none": nil, "yes": true, "negative": int64(-7),
			"large": int64(1) << 40,
			"tuple": pickle.Tuple{int64(1), pickle.Tuple{int64(2), int64(3)}}, "dtype": pickle.Name("torch.float32"),
			"device": pickle.Name("torch.device"),
			"size":   pickle.Tuple{int64(2), int64(3)},
		} {
			if got, ok := root.Get(key); !ok || !cmp.Equal(got, want) {
				t.Errorf("%s: %s is %#v, want %#v", name, key, got, want)
			}
		}
		large := new(big.Int).Lsh(big.NewInt(1), 70)
		for key, want := range map[string]*big.Int{"big": large, "less": new(big.Int).Neg(large)} {
			if got, _ := root.Get(key); got.(*big.Int).Cmp(want) != 0 {
				t.Errorf("%s: %s is %v, want %v", name, key, got, want)
			}
		}
		if list, _ := root.Get("list"); len(list.(*pickle.List).Items) != 300 ||
			list.(*pickle.List).Items[299] != int64(299) {
			t.Errorf("%s: the list is %v", name, list)
		}
		if _, ok := root.Get("other"); ok {
			t.Errorf("%s has a key that was not saved", name)
		}
	}
}

func TestFilesThatAreNotReadSayWhatTheyAre(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	state, err := os.ReadFile("testdata/state.bin")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path string
		err  error
		want string
	}{
		{"testdata/script.pt", pickle.ErrScript, "torch.save(module.state_dict(), FILE)"},
		{"testdata/module.pt", pickle.ErrForbidden, "torch.nn.modules.container.Sequential"},
		{"testdata/complex128.pt", pickle.ErrDType, "complex128"},
		{"testdata/expanded.pt", pickle.ErrTooLarge, "save tensor.contiguous()"},
		{"testdata/state.safetensors", pickle.ErrNotZip, "is it a safetensors file"},
		{"testdata/none.bin", fs.ErrNotExist, "none.bin"},
		{"testdata", nil, "not a regular file but a folder"},
		{write("short.bin", state[:len(state)-40]), pickle.ErrMalformed, "was it cut short"},
		{write("empty.bin", nil), pickle.ErrNotZip, ""},
		{write("other.pkl", []byte("\x80\x04}.")), pickle.ErrNotZip, "safetensors.torch.save_file(torch.load"},
		{write("big.bin", rezip(t, "state", map[string][]byte{"state/byteorder": []byte("big")})), pickle.ErrBigEndian,
			`"big"`},
		{write("nothing.bin", rezip(t, "state", map[string][]byte{"state/data.pkl": nil})), pickle.ErrNotZip,
			"no NAME/data.pkl"},
		{write("lost.bin", rezip(t, "state", map[string][]byte{"state/data/3": nil})), pickle.ErrMalformed, "data/3: "},
		{write("cut.bin", rezip(t, "state", map[string][]byte{"state/data/0": make([]byte, 8)})), pickle.ErrMalformed,
			"it has 8 bytes, but the pickle counts 24 elements of 4"},
	} {
		t.Run(filepath.Base(c.path), func(t *testing.T) {
			_, err := pickle.Open(c.path)
			if err == nil || c.err != nil && !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.want) ||
				!strings.Contains(err.Error(), c.path) {
				t.Errorf("error %v, want %v with %q and the path", err, c.err, c.want)
			}
		})
	}
}

func TestZipsOfOthersAreRefused(t *testing.T) {
	compressed := file(t, zip.Deflate, head+"}.")
	if _, err := pickle.NewReader(bytes.NewReader(compressed), int64(len(compressed))); !errors.Is(err,
		pickle.ErrMalformed) || !strings.Contains(err.Error(), "it is compressed") {
		t.Errorf("a compressed pickle: error %v", err)
	}
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	add(t, w, "x/data.pkl", zip.Store, []byte(head+"}."))
	add(t, w, "y/data.pkl", zip.Store, []byte(head+"}."))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := pickle.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len())); !errors.Is(err, pickle.ErrMalformed) ||
		!strings.Contains(err.Error(), "both") {
		t.Errorf("two pickles: error %v", err)
	}
}

func TestFlippedBitsOfATensorAreFound(t *testing.T) {
	whole, err := os.ReadFile("testdata/state.bin")
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(whole, []byte{0, 0, 0x80, 0x3f, 0, 0, 0, 0x40, 0, 0, 0x40, 0x40}) // 1, 2, 3
	whole[at] ^= 1
	r, err := pickle.NewReader(bytes.NewReader(whole), int64(len(whole)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read("contiguous"); !errors.Is(err, pickle.ErrChecksum) {
		t.Errorf("error %v, want ErrChecksum", err)
	}
	if _, err := r.Read("nobody"); !errors.Is(err, pickle.ErrNotFound) {
		t.Errorf("error %v, want ErrNotFound", err)
	}
}

// rezip copies testdata/NAME.bin and replaces the contents of some files; nil omits a file.
func rezip(t testing.TB, name string, replace map[string][]byte) []byte {
	t.Helper()
	r, err := zip.OpenReader("testdata/" + name + ".bin")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close() //nolint:errcheck // it was only read
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, f := range r.File {
		content := read(t, f)
		if other, ok := replace[f.Name]; ok {
			if content = other; content == nil {
				continue
			}
		}
		add(t, w, f.Name, zip.Store, content)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func read(t testing.TB, f *zip.File) []byte {
	t.Helper()
	in, err := f.Open()
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func add(t testing.TB, w *zip.Writer, name string, method uint16, content []byte) {
	t.Helper()
	out, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: method})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := out.Write(content); err != nil {
		t.Fatal(err)
	}
}

// file returns a zip with a handmade pickle and one storage of 16 bytes, "0".
func file(t testing.TB, method uint16, code string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	add(t, w, "x/data.pkl", method, []byte(code))
	add(t, w, "x/data/0", zip.Store, make([]byte, 16))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func FuzzReader(f *testing.F) {
	for _, pattern := range []string{"testdata/*.bin", "testdata/*.pt"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, path := range files {
			content, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(content)
		}
	}
	f.Add(legacy())
	f.Fuzz(readAll)
}

// FuzzPickle mutates only the pickle. Mutations of a whole file would mostly fail the checksums of
// the zip.
func FuzzPickle(f *testing.F) {
	for _, path := range []string{"testdata/state.bin", "testdata/newer.bin", "testdata/checkpoint.pt",
		"testdata/protocol4.pt", "testdata/arrays.pt", "testdata/arrays4.pt"} {
		r, err := zip.OpenReader(path)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range r.File {
			if strings.HasSuffix(file.Name, "data.pkl") {
				f.Add(read(f, file))
			}
		}
		if err := r.Close(); err != nil {
			f.Fatal(err)
		}
	}
	f.Add([]byte(head + tensor("K\x00", "K\x04\x85", "K\x01\x85") + "."))
	f.Fuzz(func(t *testing.T, code []byte) { readAll(t, file(t, zip.Store, string(code))) })
}

// readAll reads everything that a file claims to contain.
func readAll(t *testing.T, content []byte) {
	r, err := pickle.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		var f *pickle.FormatError
		if !errors.As(err, &f) || err.Error() == "" {
			t.Errorf("the error %v is no FormatError", err)
		}
		return
	}
	for _, tensor := range r.Tensors() {
		if tensor.Size() > int64(len(content)) {
			t.Errorf("%s has %d bytes in a file of %d", tensor.Name, tensor.Size(), len(content))
		}
		data, err := r.Read(tensor.Name)
		if err == nil && int64(len(data)) != tensor.Size() {
			t.Errorf("%s: %d bytes, want %d", tensor.Name, len(data), tensor.Size())
		}
	}
}

// Nothing writes to the pipe: a blocking open would never return.
func TestNamedPipeIsRefusedAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.bin")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip("no named pipes here:", err)
	}
	if _, err := pickle.Open(path); err == nil || !strings.Contains(err.Error(), "named pipe") ||
		!strings.Contains(err.Error(), path) {
		t.Errorf("Open = %v, want %q and the path", err, "named pipe")
	}
}
