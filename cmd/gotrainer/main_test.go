package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/run"
)

func TestCommandThatDoesNotExistIsCalledSo(t *testing.T) {
	app := kong.Must(new(commands)).Model
	for _, args := range [][]string{nil, {"--help"}, {"install", "--cuda"}, {"launch", "-n", "2", "runs"}, {"doctor"}} {
		if err := checkCommand(app, args); err != nil {
			t.Errorf("gotrainer %q: %v, want it left to the parser", args, err)
		}
	}
	want := `unknown command "runs"; the commands are install, launch, convert, config, doctor, see gotrainer --help`
	if err := checkCommand(app, []string{"runs", "compare"}); err == nil || err.Error() != want {
		t.Errorf("gotrainer runs compare: %v, want %s", err, want)
	}
}

func TestHelpIsACommandToo(t *testing.T) {
	for want, args := range map[string][]string{
		"[--help]": {"help"}, "[launch --help]": {"help", "launch"}, "[launch help]": {"launch", "help"}, "[]": nil,
	} {
		if got := fmt.Sprint(helpLast(args)); got != want {
			t.Errorf("gotrainer %q is read as %s, want %s", args, got, want)
		}
	}
}

func TestAWrongCommandLineIsOneLine(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "printed"))
	require.NoError(t, err)
	defer file.Close()
	defer func(out, errors *os.File) { os.Stdout, os.Stderr = out, errors }(os.Stdout, os.Stderr)
	os.Stdout, os.Stderr = file, file
	for want, args := range map[string][]string{
		"unknown flag --nope; see gotrainer --help":                                         {"--nope"},
		"unknown flag --nope; see gotrainer install --help":                                 {"install", "--nope"},
		`expected "<command> ..."; see gotrainer launch --help`:                             {"launch", "-n", "2"},
		`expected "<folder>"; see gotrainer convert --help`:                                 {"convert", "a"},
		"unexpected argument extra; see gotrainer doctor --help":                            {"doctor", "extra"},
		`--processes: expected a valid 64 bit int but got "x"; see gotrainer launch --help`: {"launch", "-n", "x", "y"},
	} {
		err := execute(t.Context(), args)
		require.EqualError(t, err, want)
		assert.Equal(t, run.Configuration, run.CodeOf(err))
	}
	info, err := file.Stat()
	require.NoError(t, err)
	assert.Zero(t, info.Size(), "the error is all that is to be read")
}
