package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// warned opens a store and collects its warnings.
func warned(t *testing.T, o Options) (*Store, *[]error) {
	t.Helper()
	list := new([]error)
	o.OnWarning = func(err error) { *list = append(*list, err) }
	return open(t, t.TempDir(), o), list
}

// The usual idiom: a hook writes the tokenizer into the checkpoint that was just saved.
func TestAFileThatIsAddedToACheckpointIsNoPartOfIt(t *testing.T) {
	s, warnings := warned(t, Options{Keep: 1, OnDamaged: func(e *DamagedError) { t.Error(e) }})
	for step := 1; step <= 3; step++ {
		path := save(t, s, step, "weights")
		put(t, filepath.Join(path, "tokenizer.json"), []byte("{}"))
		put(t, filepath.Join(path, "rng", "notes"), []byte("x"))
		require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(path, "link")))
		require.NoError(t, Verify(path))
		require.NoError(t, s.Rotate())
		steps, err := s.Steps()
		require.NoError(t, err)
		assert.Equal(t, []int{step}, steps, "rotation counts it as complete, and deletes it with the added files")
		latest, err := s.Latest()
		require.NoError(t, err)
		assert.Equal(t, path, latest)
	}
	require.Len(t, *warnings, 3, "one for each checkpoint, however often it is looked at")
	var e *UnlistedError
	require.ErrorAs(t, (*warnings)[0], &e)
	assert.Equal(t, &UnlistedError{Path: s.Path(1), Files: []string{"link", "rng/notes", "tokenizer.json"}}, e)
}

func TestBeforeSealAddsFilesToTheCheckpoint(t *testing.T) {
	s, warnings := warned(t, Options{})
	s.BeforeSeal(func(step int, dir string) error {
		assert.Equal(t, 7, step)
		assert.FileExists(t, filepath.Join(dir, "model.safetensors"), "what Write was given comes first")
		return os.WriteFile(filepath.Join(dir, "tokenizer.json"), []byte("{}"), 0o600)
	})
	path := save(t, s, 7, "weights")
	m, err := readManifest(path)
	require.NoError(t, err)
	var listed []string
	for _, f := range m.Files {
		listed = append(listed, f.Name)
	}
	assert.Equal(t, []string{"empty", "model.safetensors", "rng/0", "tokenizer.json"}, listed)
	put(t, filepath.Join(path, "tokenizer.json"), []byte("[]"))
	damaged(t, path, "a change of the added file")
	assert.Empty(t, *warnings)

	refused := errors.New("no tokenizer")
	s.BeforeSeal(func(int, string) error { return refused })
	_, err = s.Write(7, state("new"))
	require.ErrorIs(t, err, refused)
	assert.Equal(t, []string{"checkpoint-7"}, names(t, s.Dir()))
}

// A copy under another number would continue a run at the wrong update.
func TestACheckpointUnderAnotherNumberIsRefused(t *testing.T) {
	s, _ := warned(t, Options{})
	path := save(t, s, 500, "weights")
	require.NoError(t, os.CopyFS(s.Path(600), os.DirFS(path)))
	damaged(t, s.Path(600), "a copy to another number")
	require.ErrorContains(t, Verify(s.Path(600)), "it is of step 500, the folder is named after step 600")
	latest, err := s.Latest()
	require.NoError(t, err)
	assert.Equal(t, path, latest)
	for _, name := range []string{"best", "bert-2"} {
		other := filepath.Join(s.Dir(), name)
		require.NoError(t, os.CopyFS(other, os.DirFS(path)))
		assert.NoError(t, Verify(other), "a name of the user's may be any")
	}

	numbered := filepath.Join(t.TempDir(), "checkpoint-20")
	require.NoError(t, WriteFolder(numbered, state("weights")))
	assert.NoError(t, Verify(numbered))
	moved := filepath.Join(filepath.Dir(numbered), "checkpoint-30")
	require.NoError(t, os.Rename(numbered, moved))
	damaged(t, moved, "a new number for a folder of WriteFolder")
}
