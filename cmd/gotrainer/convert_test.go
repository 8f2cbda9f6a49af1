package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/checkpoint/sharded"
	"github.com/gotrainer/gotrainer/safetensors"
)

func TestConvertMakesOneFileOfAShardedCheckpoint(t *testing.T) {
	path, out := filepath.Join(t.TempDir(), "step-1"), filepath.Join(t.TempDir(), "model")
	folder, err := sharded.Begin(path)
	require.NoError(t, err)
	w, err := sharded.WriteFile(folder, 0, 1, "id", []sharded.Entry{{Name: "model.w", DType: safetensors.U8,
		Shape: []int64{2}, Length: 2, Data: safetensors.Bytes([]byte{1, 2})}})
	require.NoError(t, err)
	require.NoError(t, sharded.WriteIndex(folder, "id", 1, nil, []sharded.Written{w}))
	require.NoError(t, sharded.Publish(path))
	require.NoError(t, execute(t.Context(), []string{"convert", path, out}))
	assert.FileExists(t, filepath.Join(out, "model.safetensors"))
	require.ErrorContains(t, execute(t.Context(), []string{"convert", path, path}), "name another folder")
	require.ErrorContains(t, execute(t.Context(), []string{"convert", out, path}), "it is not a sharded checkpoint")
}
