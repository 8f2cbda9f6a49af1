package run_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/run"
)

// parse parses a command line of a program with the flag -lr, and returns its value and what is
// printed on standard output and where package flag prints.
func parse(t *testing.T, usage string, args ...string) (rate float64, stdout, other string, err error) {
	t.Helper()
	var out bytes.Buffer
	f := flag.NewFlagSet("train", flag.ExitOnError) // does not exit either
	f.SetOutput(&out)
	f.Usage = func() { _, _ = f.Output().Write([]byte("its own\n")) }
	f.Float64Var(&rate, "lr", 0.1, "peak learning rate")
	file, err := os.Create(filepath.Join(t.TempDir(), "stdout"))
	require.NoError(t, err)
	defer func(old *os.File) { os.Stdout = old }(os.Stdout)
	os.Stdout = file
	parsed := run.ParseFlags(f, usage, args)
	require.NoError(t, file.Close())
	printed, err := os.ReadFile(file.Name())
	require.NoError(t, err)
	return rate, string(printed), out.String(), parsed
}

func TestParseFlags(t *testing.T) {
	const usage = "Usage: train [flags]\n\n"
	rate, stdout, other, err := parse(t, usage, "-lr", "0.5", "rest")
	require.NoError(t, err)
	assert.Equal(t, 0.5, rate)
	assert.Empty(t, stdout+other)

	_, stdout, other, err = parse(t, usage, "-help")
	require.ErrorIs(t, err, flag.ErrHelp)
	assert.Equal(t, usage+"  -lr float\n    \tpeak learning rate (default 0.1)\n", stdout)
	assert.Empty(t, other)

	_, stdout, _, err = parse(t, "", "-h")
	require.ErrorIs(t, err, flag.ErrHelp)
	assert.Equal(t, "its own\n", stdout)

	for arg, want := range map[string]string{
		"-lr=x":     `invalid value "x" for flag -lr: parse error; -h lists the flags`,
		"-rate=0.1": `flag provided but not defined: -rate; -h lists the flags`,
	} {
		_, stdout, other, err = parse(t, usage, arg)
		require.EqualError(t, err, want)
		assert.Equal(t, run.Configuration, run.CodeOf(err))
		assert.Empty(t, stdout+other)
	}
}
