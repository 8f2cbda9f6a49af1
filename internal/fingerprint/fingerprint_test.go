package fingerprint_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/fingerprint"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// Compares with scripts/golden/fingerprint.py: if this machine computes the numbers of a folder of
// golden files, its fingerprint must equal the one that the scripts wrote there.
func TestPythonHasTheSameFingerprint(t *testing.T) {
	testenv.RequireTorch(t)
	here := fingerprint.Here()
	folders, err := filepath.Glob("../../*/testdata/" + fingerprint.FileName)
	require.NoError(t, err)
	require.NotEmpty(t, folders)
	for _, path := range folders {
		recorded, err := fingerprint.Read(filepath.Dir(path))
		require.NoError(t, err)
		assert.Len(t, recorded, len(here), "operations of %s", path)
		for name := range here {
			assert.Contains(t, recorded, name, path)
		}
		t.Logf("%s: %s; here %s, which differs in %q", path, recorded, here, here.Differs(recorded))
	}
}

func TestOtherNumbersHaveAnotherFingerprint(t *testing.T) {
	a := fingerprint.Fingerprint{"exp": "1", "sqrt": "2"}
	assert.True(t, a.Equal(fingerprint.Fingerprint{"sqrt": "2", "exp": "1"}))
	for _, c := range []struct {
		other   fingerprint.Fingerprint
		differs string
	}{
		{fingerprint.Fingerprint{"exp": "1", "sqrt": "3"}, "sqrt"},
		{fingerprint.Fingerprint{"exp": "1"}, "sqrt"},
		{fingerprint.Fingerprint{"exp": "1", "sqrt": "2", "tanh": "4"}, "tanh"},
		{fingerprint.Fingerprint{}, "exp sqrt"},
	} {
		assert.False(t, a.Equal(c.other), "%v", c.other)
		assert.Equal(t, c.differs, a.Differs(c.other))
	}
}

// The first caller may be in a scope, without gradients.
func TestModesOfTheCallerDoNotCount(t *testing.T) {
	testenv.RequireTorch(t)
	live := testenv.Live()
	torch.Scope(func() {
		torch.NoGrad(func() { assert.NotEmpty(t, fingerprint.Here()) })
	})
	assert.LessOrEqual(t, testenv.Live(), live, "tensors are left")
}

func TestFilesThatAreNone(t *testing.T) {
	dir := t.TempDir()
	_, err := fingerprint.Read(dir)
	assert.ErrorIs(t, err, os.ErrNotExist)
	for text, want := range map[string]string{
		"{":  "unexpected end of JSON input",
		"{}": "not that of its 0 operations",
		`{"fingerprint": "0", "operations": {"exp": "1"}}`: `the fingerprint "0" is not that of its 1 operations`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, fingerprint.FileName), []byte(text), 0o600))
		_, err = fingerprint.Read(dir)
		assert.ErrorContains(t, err, want)
		assert.ErrorContains(t, err, "make golden")
	}
}
