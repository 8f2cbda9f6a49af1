package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/examples/listings/internal/fakehub"
	"github.com/gotrainer/gotrainer/internal/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Run(m)) }

func TestListing(t *testing.T) {
	testenv.RequireTorch(t)
	fakehub.AddCourse(t, fakehub.Start(t))
	printed, err := testenv.Stdout(t, func() error { return train(t.Context()) })
	require.NoError(t, err)
	assert.Regexp(t, `^15\nmap\[accuracy:\S+ f1:\S+\]\n$`, printed)
}
