package trainer

import (
	"errors"
	"log/slog"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/checkpoint"
)

// If a run's folder cannot be listed, the disk is to blame: exit code 4, whatever the reason.
func TestAFolderThatCannotBeListedIsAStorageError(t *testing.T) {
	store, err := checkpoint.Open(t.TempDir(), checkpoint.Options{})
	require.NoError(t, err)
	defer store.Close()
	require.NoError(t, os.RemoveAll(store.Dir()))

	for name, list := range map[string]func(s *saver) error{
		"a new run":     func(s *saver) error { return s.beginNew() },
		"one continued": func(s *saver) error { _, err := s.steps(); return err },
	} {
		err := list(&saver{session: &session{}, store: store})
		_, folder := errors.AsType[*folderError](err)
		assert.Truef(t, folder, "%s: %v", name, err)
	}
}

// The goroutine of an asynchronous save finds that the file system cannot flush folders. The race
// detector notices if another goroutine than the loop's touches the warnings.
func TestTheGoroutineOfASaveDoesNotWarn(t *testing.T) {
	s := saver{session: &session{o: Options{Logger: slog.New(slog.DiscardHandler)}}}
	v := &saving{finish: func() error {
		s.storeWarnings.add(errors.New("cannot flush folders"))
		return nil
	}}
	s.underWay = v
	v.start(nil)
	s.warn("of the loop")
	s.wait()
	assert.Equal(t, []string{"of the loop"}, s.warnings)
	s.passOnWarnings()
	s.passOnWarnings()
	assert.Equal(t, []string{"of the loop", "cannot flush folders"}, s.warnings)
}
