package pretrained_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/regularfile"
	"github.com/gotrainer/gotrainer/models/pretrained"
)

// A device that never ends and a pipe without a writer are refused immediately.
func TestDescriptionsAreRegularFiles(t *testing.T) {
	read := map[string]func(dir string) error{
		pretrained.ConfigName:           func(dir string) error { _, err := pretrained.ReadConfig(dir); return err },
		pretrained.HezarConfigName:      func(dir string) error { _, err := pretrained.ReadConfig(dir); return err },
		pretrained.SafetensorsIndexName: func(dir string) error { _, err := pretrained.Open(dir); return err },
		pretrained.PickleName:           func(dir string) error { _, err := pretrained.Open(dir); return err },
	}
	for name, read := range read {
		for what, put := range map[string]func(path string) error{
			"/dev/zero": func(path string) error { return os.Symlink("/dev/zero", path) },
			"a pipe":    func(path string) error { return syscall.Mkfifo(path, 0o600) },
		} {
			t.Run(name+" is "+what, func(t *testing.T) {
				dir := t.TempDir()
				require.NoError(t, put(filepath.Join(dir, name)))
				err := read(dir)
				require.ErrorIs(t, err, regularfile.ErrKind)
				require.ErrorContains(t, err, name)
			})
		}
	}
}

// A file that is first written elsewhere, such as in TMPDIR, would be left behind there if the
// process were killed.
func TestADescriptionIsWrittenInItsOwnFolder(t *testing.T) {
	temp, dir := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", temp)
	before, err := os.Stat(temp)
	require.NoError(t, err)
	require.NoError(t, pretrained.Document{"model_type": []byte(`"bert"`)}.Write(dir))
	after, err := os.Stat(temp)
	require.NoError(t, err)
	require.Equal(t, before.ModTime(), after.ModTime(), "a file was made in TMPDIR")
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 1)
}
