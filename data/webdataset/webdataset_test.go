package webdataset_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/data/webdataset"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	_ data.Dataset[webdataset.Sample] = (*webdataset.Shards)(nil)
	_ data.Stream[webdataset.Sample]  = (*webdataset.Shards)(nil)
)

// archive returns a tar file of files, given as name=content.
func archive(t testing.TB, files ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		name, content, _ := strings.Cut(f, "=")
		h := &tar.Header{Name: name, Mode: 0o644, Size: int64(len(content)), Typeflag: tar.TypeReg}
		switch {
		case strings.HasSuffix(name, "/"):
			h.Typeflag = tar.TypeDir
		case strings.HasPrefix(content, "->"):
			h.Typeflag, h.Linkname, h.Size, content = tar.TypeSymlink, content[2:], 0, ""
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func write(t testing.TB, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.tar")
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSamplesAreGroupedByName(t *testing.T) {
	long := strings.Repeat("x", 120) // a name that needs a PAX header
	shards, err := webdataset.Open([]string{
		write(t, archive(t, "train/", "train/0.jpg=J0", "train/0.seg.PNG=S0", "README=no sample", "train/1.jpg=",
			"__meta__=no sample")),
		write(t, archive(t)),
		write(t, archive(t, "0.cls=1", "1.cls="+strings.Repeat("y", 2000), long+".cls=2")),
	}, webdataset.Options{})
	if err != nil {
		t.Fatal(err)
	}
	file := func(key, extension, content string) webdataset.Sample {
		return webdataset.Sample{Key: key, Files: map[string][]byte{extension: []byte(content)}}
	}
	want := []webdataset.Sample{
		{Key: "train/0", Files: map[string][]byte{"jpg": []byte("J0"), "seg.png": []byte("S0")}},
		file("train/1", "jpg", ""), file("0", "cls", "1"), file("1", "cls", strings.Repeat("y", 2000)),
		file(long, "cls", "2"),
	}
	if shards.Len() != len(want) {
		t.Fatalf("%d samples, want %d", shards.Len(), len(want))
	}
	for i := range want {
		got, err := shards.At(i)
		if diff := cmp.Diff(want[i], got); diff != "" || err != nil {
			t.Errorf("At(%d): %v\n%s", i, err, diff)
		}
	}
	for skip := range len(want) + 1 {
		at := skip
		for got, err := range shards.Samples(2, skip) {
			if err != nil || got.Key != want[at].Key {
				t.Fatalf("Samples(2, %d) gives %q, %v at %d", skip, got.Key, err, at)
			}
			at++
		}
		if at != len(want) {
			t.Errorf("Samples(2, %d) ends at %d", skip, at)
		}
	}
	if got := shards.Describe(3); !strings.HasPrefix(got, "1 in ") {
		t.Errorf("Describe = %q", got)
	}
}

func TestOpenRefuses(t *testing.T) {
	good := archive(t, "0.jpg="+strings.Repeat("x", 3000), "1.jpg=y")
	for _, c := range []struct {
		name    string
		content []byte
		options webdataset.Options
		want    string
	}{
		{"a link", archive(t, "0.jpg=->1.jpg"), webdataset.Options{}, "0.jpg is a link"},
		{"a file twice", archive(t, "0.jpg=a", "0.JPG=b"), webdataset.Options{}, `sample 0 has two files "jpg"`},
		{"a sample over the limit", good, webdataset.Options{MaxSample: 2000}, "sample 0 has more than 2000 bytes"},
		{"a truncated file", good[:2000], webdataset.Options{}, "not a valid shard"},
		{"a file cut in a header", good[:3700], webdataset.Options{}, "not a valid shard"},
		{"a file cut to nothing", nil, webdataset.Options{}, "not a valid shard: the file is empty"},
		{"gzip", []byte{0x1f, 0x8b, 8, 0}, webdataset.Options{}, "compressed by gzip"},
		{"no tar file", bytes.Repeat([]byte("text "), 200), webdataset.Options{}, "not a valid shard"},
		{"a negative limit", good, webdataset.Options{MaxSample: -1}, "Options.MaxSample is -1"},
	} {
		if _, err := webdataset.Open([]string{write(t, c.content)}, c.options); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := webdataset.Open([]string{"/no/such/file.tar"}, webdataset.Options{}); !errors.Is(err,
		fs.ErrNotExist) || !strings.Contains(err.Error(), "/no/such/file.tar") {
		t.Errorf("a missing shard: %v", err)
	}
}

// TestShardWithoutItsEndIsNamed covers shards truncated between two files, which otherwise read
// without an error.
func TestShardWithoutItsEndIsNamed(t *testing.T) {
	whole := archive(t, "0.jpg=a", "1.jpg=b", "2.jpg=c")
	before := slog.Default()
	t.Cleanup(func() { slog.SetDefault(before) })
	for _, c := range []struct {
		name           string
		content        []byte
		samples, warns int
	}{
		{"whole", whole, 3, 0},
		{"cut behind the second file", whole[:4*512], 2, 1},
		{"without the end mark", whole[:6*512], 3, 1},
		{"no file", archive(t), 0, 0},
	} {
		var log bytes.Buffer
		slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
		path := write(t, c.content)
		shards, err := webdataset.Open([]string{path}, webdataset.Options{})
		require.NoError(t, err, c.name)
		assert.Equal(t, c.samples, shards.Len(), c.name)
		assert.Equal(t, c.warns, strings.Count(log.String(), path), "%s: %s", c.name, log.String())
	}
}

func TestShardThatChangesIsNoticed(t *testing.T) {
	path := write(t, archive(t, "0.jpg=a", "1.jpg=b"))
	shards, err := webdataset.Open([]string{path}, webdataset.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 600); err != nil {
		t.Fatal(err)
	}
	if _, err := shards.At(1); !errors.Is(err, webdataset.ErrChanged) {
		t.Errorf("At = %v, want ErrChanged", err)
	}
	for _, err := range shards.Samples(0, 0) {
		if !errors.Is(err, webdataset.ErrChanged) {
			t.Errorf("Samples = %v, want ErrChanged", err)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := shards.At(0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a shard that is gone: %v", err)
	}
}

func FuzzOpen(f *testing.F) {
	f.Setenv("TMPDIR", f.TempDir()) // of its workers too, which may be killed
	f.Add(archive(f, "0.jpg=abc", "0.json={}", "1.jpg="))
	f.Add(archive(f, "a/", strings.Repeat("x", 150)+".cls=2", "b.c=->d"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, content []byte) {
		path := filepath.Join(dir, "a.tar")
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
		shards, err := webdataset.Open([]string{path}, webdataset.Options{MaxSample: 1 << 20})
		if err != nil {
			return
		}
		// The files must be those that archive/tar reads sequentially.
		reader := tar.NewReader(bytes.NewReader(content))
		want := map[string]int{}
		for {
			h, err := reader.Next()
			if err != nil {
				break
			}
			if h.Typeflag == tar.TypeReg {
				want[h.Name] = int(h.Size)
			}
		}
		for i := range shards.Len() {
			s, err := shards.At(i)
			if err != nil {
				t.Fatal(err)
			}
			if len(s.Files) == 0 {
				t.Fatalf("sample %q has no files", s.Key)
			}
		}
		if shards.Len() > 0 && len(want) == 0 {
			t.Fatalf("%d samples of no files", shards.Len())
		}
	})
}

func ExampleOpen() {
	dir, _ := os.MkdirTemp("", "shards")
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "train-0000.tar")
	f, _ := os.Create(path)
	w := tar.NewWriter(f)
	for _, name := range []string{"000.txt", "000.cls", "001.txt", "001.cls"} {
		_ = w.WriteHeader(&tar.Header{Name: name, Size: 1, Mode: 0o644})
		_, _ = w.Write([]byte("7"))
	}
	_ = w.Close()
	_ = f.Close()
	shards, err := webdataset.Open([]string{path}, webdataset.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := shards.At(1)
	fmt.Println(shards.Len(), s.Key, string(s.Files["cls"]), err)
	// Output: 2 001 7 <nil>
}

// Nothing writes to the pipe: a blocking open would never return.
func TestNamedPipeIsRefusedAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "shard.tar")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip("no named pipes here:", err)
	}
	if _, err := webdataset.Open([]string{path}, webdataset.Options{}); !errors.Is(err, webdataset.ErrFormat) ||
		!strings.Contains(err.Error(), "named pipe") || !strings.Contains(err.Error(), path) {
		t.Errorf("Open = %v, want %q and the path", err, "named pipe")
	}
}
