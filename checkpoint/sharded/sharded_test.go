package sharded_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/gotrainer/gotrainer/checkpoint"
	"github.com/gotrainer/gotrainer/checkpoint/sharded"
	"github.com/gotrainer/gotrainer/safetensors"
)

// values returns the elements of a tensor of bytes.
func values(n int64, salt byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)*7 + salt
	}
	return b
}

// save writes a checkpoint of two tensors by world processes, each of which has an equal part of
// each tensor.
func save(t require.TestingT, path, id string, world int, shapes map[string][]int64) {
	folder, err := sharded.Begin(path)
	require.NoError(t, err)
	var all []sharded.Written
	for rank := range world {
		var entries []sharded.Entry
		for _, name := range []string{"model.a", "model.b", "optimizer.a.exp_avg"} {
			n := int64(1)
			for _, d := range shapes[name] {
				n *= d
			}
			low, high := n*int64(rank)/int64(world), n*int64(rank+1)/int64(world)
			entries = append(entries, sharded.Entry{Name: name, DType: safetensors.U8, Shape: shapes[name], Offset: low,
				Length: high - low, Data: safetensors.Bytes(values(n, name[len(name)-1])[low:high])})
		}
		w, err := sharded.WriteFile(folder, rank, world, id, entries)
		require.NoError(t, err)
		text, err := json.Marshal(w) // as it is sent to the process that commits
		require.NoError(t, err)
		all = append(all, sharded.Written{})
		require.NoError(t, json.Unmarshal(text, &all[rank]))
	}
	require.NoError(t, sharded.WriteIndex(folder, id, 7, map[string]string{"updates": "7"}, all))
	require.NoError(t, sharded.Publish(path))
}

func TestAnyRangeIsReadWhateverTheNumberOfWriters(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		folder, err := os.MkdirTemp(t.TempDir(), "")
		require.NoError(rt, err)
		path := filepath.Join(folder, "step-7")
		n := rapid.Int64Range(0, 50).Draw(rt, "n")
		save(rt, path, "id", rapid.IntRange(1, 5).Draw(rt, "world"), map[string][]int64{"model.a": {n, 3}})
		r, err := sharded.Open(path)
		require.NoError(rt, err)
		defer r.Close() //nolint:errcheck // it was only read
		offset := rapid.Int64Range(0, 3*n).Draw(rt, "offset")
		length := rapid.Int64Range(0, 3*n-offset).Draw(rt, "length")
		var got bytes.Buffer
		require.NoError(rt, r.ReadRange("model.a", offset, length, &got))
		assert.Equal(rt, string(values(3*n, 'a')[offset:offset+length]), got.String())
	})
}

var shapes = map[string][]int64{"model.a": {4, 3}, "model.b": {}, "optimizer.a.exp_avg": {12}}

func TestConvertMakesOneFileOfTheParameters(t *testing.T) {
	path, out := filepath.Join(t.TempDir(), "step-7"), filepath.Join(t.TempDir(), "model")
	save(t, path, "id", 3, shapes)
	require.NoError(t, os.WriteFile(filepath.Join(path, "config.json"), []byte("{}"), 0o600))
	require.NoError(t, sharded.Convert(path, out))
	f, err := safetensors.Open(filepath.Join(out, "model.safetensors"))
	require.NoError(t, err)
	defer f.Close() //nolint:errcheck // it was only read
	assert.Len(t, f.Tensors(), 2)
	a, err := f.Read("a")
	require.NoError(t, err)
	assert.Equal(t, values(12, 'a'), a)
	b, _ := f.Tensor("b")
	assert.Empty(t, b.Shape)
	assert.Equal(t, "pt", f.Metadata()["format"])
	assert.FileExists(t, filepath.Join(out, "config.json"))
	assert.NoFileExists(t, filepath.Join(out, sharded.IndexName))
}

func TestACheckpointThatIsNotWholeIsRefusedWithAReason(t *testing.T) {
	second := "rank-00001-of-00002.safetensors"
	for name, c := range map[string]struct {
		damage func(path string) error
		want   string
	}{
		"a file is missing": {func(path string) error { return os.Remove(filepath.Join(path, second)) },
			"the file of rank 1: " + second + " is missing: the checkpoint of 2 processes needs the files of all"},
		"a file was cut short": {func(path string) error { return os.Truncate(filepath.Join(path, second), 100) },
			"has 100 bytes, the index says"},
		"a file of another step": {func(path string) error {
			other := filepath.Join(t.TempDir(), "step-8")
			save(t, other, "ID", 2, shapes)
			text, err := os.ReadFile(filepath.Join(other, second))
			return errors.Join(err, os.WriteFile(filepath.Join(path, second), text, 0o600))
		}, second + " is rank 1 of another checkpoint than the index, which is of step 7"},
		"no index": {func(path string) error { return os.Remove(filepath.Join(path, sharded.IndexName)) },
			"has no index.json: it is not a sharded checkpoint, or was not finished"},
		"a file in the place of the folder": {func(path string) error {
			return errors.Join(os.RemoveAll(path), os.WriteFile(path, []byte("weights"), 0o600))
		}, "has no index.json: it is not a sharded checkpoint, or was not finished"},
		"half an index": {func(path string) error {
			return os.Truncate(filepath.Join(path, sharded.IndexName), 100)
		}, "index.json is damaged"},
		"a path in the index": {func(path string) error { return replace(path, second, "../"+second) },
			"which is not a file name in this folder"},
		"a hole": {func(path string) error { return replace(path, `"offset": 6`, `"offset": 7`) },
			"want elements from 6 to 12"},
		"another format": {func(path string) error { return replace(path, `"version": 1`, `"version": 2`) },
			"version 2"},
		"a negative shape": {func(path string) error { return replace(path, "    4,\n", "    -4,\n") }, "not a valid shape"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "step-7")
			save(t, path, "id", 2, shapes)
			require.NoError(t, c.damage(path))
			_, err := sharded.Open(path)
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, sharded.Convert(path, t.TempDir()), c.want)
		})
	}
}

// replace replaces old, which must occur, in the text of an index.
func replace(path, old, fresh string) error {
	path = filepath.Join(path, sharded.IndexName)
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !strings.Contains(string(text), old) {
		return errors.New("the index has no " + old)
	}
	return os.WriteFile(path, []byte(strings.Replace(string(text), old, fresh, 1)), 0o600)
}

func TestAFlippedBitIsFoundWhereItIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "step-7")
	save(t, path, "id", 2, shapes)
	file := filepath.Join(path, "rank-00001-of-00002.safetensors")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	text[bytes.Index(text, values(12, 'a')[6:])] ^= 4
	require.NoError(t, os.WriteFile(file, text, 0o600))
	r, err := sharded.Open(path)
	require.NoError(t, err)
	defer r.Close() //nolint:errcheck // it was only read
	require.NoError(t, r.ReadRange("model.a", 0, 6, io.Discard))
	require.ErrorContains(t, r.ReadRange("model.a", 5, 2, io.Discard), `is damaged: the elements from 6 on of tensor `+
		`"model.a" in rank-00001-of-00002.safetensors have the checksum`)
	out := t.TempDir()
	require.ErrorContains(t, sharded.Convert(path, out), "is damaged")
	assert.NoFileExists(t, filepath.Join(out, "model.safetensors"))
}

func TestACheckpointAppearsWholeOrNotAtAll(t *testing.T) {
	path := filepath.Join(t.TempDir(), "step-7")
	folder, err := sharded.Begin(path)
	require.NoError(t, err)
	full := errors.New("no space left on device")
	_, err = sharded.WriteFile(folder, 0, 1, "id", []sharded.Entry{{Name: "model.a", DType: safetensors.U8,
		Shape: []int64{3}, Length: 3, Data: func(io.Writer) error { return full }}})
	require.ErrorIs(t, err, full)
	_, err = sharded.Open(path)
	require.ErrorIs(t, err, os.ErrNotExist)
	w, err := sharded.WriteFile(folder, 0, 1, "id", []sharded.Entry{{Name: "model.a", DType: safetensors.U8,
		Shape: []int64{3}, Length: 2, Data: safetensors.Bytes([]byte{1, 2})}})
	require.NoError(t, err)
	require.ErrorContains(t, sharded.WriteIndex(folder, "id", 1, nil, []sharded.Written{w}),
		`the parts of tensor "model.a" end at element 2 of 3`)
	assert.NoDirExists(t, path)
	save(t, path, "id", 2, shapes) // a hidden folder left by an earlier run is no obstacle
	_, err = sharded.Begin(path)
	require.ErrorIs(t, err, os.ErrExist)
}

func TestConvertIntoTheCheckpointItselfIsRefusedAndLeavesItWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "step-7")
	save(t, path, "id", 2, shapes)
	config := filepath.Join(path, "config.json")
	require.NoError(t, os.WriteFile(config, []byte("{}"), 0o600))
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(path, link))
	for _, out := range []string{path, path + "/.", link} {
		require.ErrorContains(t, sharded.Convert(path, out), "is the checkpoint itself; name another folder", out)
		text, err := os.ReadFile(config)
		require.NoError(t, err)
		assert.Equal(t, "{}", string(text), out)
		assert.NoFileExists(t, filepath.Join(path, "model.safetensors"), out)
	}
}

func TestConvertCopiesWholeFilesAndNoManifest(t *testing.T) {
	path, out := filepath.Join(t.TempDir(), "step-7"), t.TempDir()
	save(t, path, "id", 2, shapes)
	config := filepath.Join(path, "config.json")
	require.NoError(t, os.WriteFile(config, []byte("{}"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(path, checkpoint.ManifestName), []byte("{}"), 0o600))
	require.NoError(t, os.Symlink(config, filepath.Join(out, "config.json"))) // the link is replaced, not written through
	require.NoError(t, sharded.Convert(path, out))
	for _, file := range []string{config, filepath.Join(out, "config.json")} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Equal(t, "{}", string(text), file)
	}
	entries, err := os.ReadDir(out)
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	assert.Equal(t, []string{"config.json", "model.safetensors"}, names)
}

func TestACheckpointWhoseNameDoesNotReachTheDiskStaysHidden(t *testing.T) {
	path := filepath.Join(t.TempDir(), "step-7")
	folder, err := sharded.Begin(path)
	require.NoError(t, err)
	former := *sharded.SyncParent
	*sharded.SyncParent = func(string) error { return syscall.EIO }
	t.Cleanup(func() { *sharded.SyncParent = former })
	require.ErrorIs(t, sharded.Publish(path), syscall.EIO)
	assert.NoDirExists(t, path)
	assert.DirExists(t, folder)
	require.NoError(t, sharded.Abandon(path))
	assert.NoDirExists(t, folder)
}

// FuzzIndex reads a checkpoint of two files with an arbitrary index.
func FuzzIndex(f *testing.F) {
	path := filepath.Join(f.TempDir(), "step-7")
	save(f, path, "id", 2, shapes)
	index := filepath.Join(path, sharded.IndexName)
	text, err := os.ReadFile(index)
	require.NoError(f, err)
	f.Add(text)
	f.Fuzz(func(t *testing.T, text []byte) {
		require.NoError(t, os.WriteFile(index, text, 0o600))
		r, err := sharded.Open(path)
		if err != nil {
			require.Contains(t, err.Error(), "sharded: ")
			return
		}
		defer r.Close() //nolint:errcheck // it was only read
		for _, tensor := range r.Tensors {
			n := int64(1)
			for _, d := range tensor.Shape {
				n *= d
			}
			var got bytes.Buffer
			if err := r.ReadRange(tensor.Name, 0, n, &got); err == nil {
				assert.Zero(t, int64(got.Len())%max(n, 1), "%d bytes of %d elements", got.Len(), n)
			}
		}
	})
}
