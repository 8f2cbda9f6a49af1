package auto_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/hub/hubtest"
	"github.com/gotrainer/gotrainer/models/auto"
)

// TestFindFetchesTheWeightsOnce checks that pickles with the same weights are not fetched, and that
// the cache may have any path.
func TestFindFetchesTheWeightsOnce(t *testing.T) {
	server, err := hubtest.New()
	require.NoError(t, err)
	defer server.Close()
	server.AddUser("me", "hf_secret")
	server.CreateRepo(hubtest.Model, "me/tiny", hubtest.Public)
	server.Commit(hubtest.Model, "me/tiny", "main", map[string][]byte{"config.json": []byte("{}"),
		"model.safetensors": []byte("weights"), "pytorch_model.bin": []byte("the same again")})
	t.Setenv("HF_ENDPOINT", server.URL)
	t.Setenv("HF_HOME", filepath.Join(t.TempDir(), "[1] cache")) // contains special characters of patterns
	t.Setenv("HF_HUB_CACHE", "")
	dir, err := auto.Find(t.Context(), "me/tiny", "")
	require.NoError(t, err)
	assert.FileExists(t, filepath.Join(dir, "model.safetensors"))
	assert.NoFileExists(t, filepath.Join(dir, "pytorch_model.bin"))

	server.CreateRepo(hubtest.Model, "me/variants", hubtest.Public)
	server.Commit(hubtest.Model, "me/variants", "main", map[string][]byte{"config.json": []byte("{}"),
		"model.fp16.safetensors": []byte("of another precision"), "pytorch_model.bin": []byte("weights")})
	dir, err = auto.Find(t.Context(), "me/variants", "")
	require.NoError(t, err)
	assert.FileExists(t, filepath.Join(dir, "pytorch_model.bin"))
	assert.NoFileExists(t, filepath.Join(dir, "model.fp16.safetensors"))
}
