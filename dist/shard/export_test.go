package shard

import (
	"testing"

	"github.com/gotrainer/gotrainer/checkpoint/sharded"
)

// SetWriteFile gives the processes of a test another way to write their files.
func SetWriteFile(t *testing.T, f func(path string, rank, world int, id string, e []sharded.Entry) (sharded.Written,
	error)) {
	former := writeFile
	writeFile = f
	t.Cleanup(func() { writeFile = former })
}
