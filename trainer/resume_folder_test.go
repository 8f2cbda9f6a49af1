package trainer

import (
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/checkpoint"
)

// A run's folder that cannot be listed is the disk's fault: exit code 4, whatever the reason.
func TestAFolderThatCannotBeListedIsAStorageError(t *testing.T) {
	store, err := checkpoint.Open(t.TempDir(), checkpoint.Options{})
	require.NoError(t, err)
	defer store.Close()
	require.NoError(t, os.RemoveAll(store.Dir()))

	for name, list := range map[string]func(s *saver[any, any]) error{
		"a new run":     func(s *saver[any, any]) error { return s.beginNew() },
		"one continued": func(s *saver[any, any]) error { _, err := s.steps(); return err },
	} {
		err := list(&saver[any, any]{session: &session[any, any]{}, store: store})
		_, folder := errors.AsType[*folderError](err)
		assert.Truef(t, folder, "%s: %v", name, err)
	}
}
