package main

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/testenv"
)

const program = "DIGITS_PROGRAM" // set where the test binary is the program itself

func TestMain(m *testing.M) {
	if os.Getenv(program) != "" {
		main()
	}
	os.Exit(testenv.Run(m))
}

func TestItIsTheProgramOfTheREADME(t *testing.T) {
	source, err := os.ReadFile("main.go")
	require.NoError(t, err)
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	_, after, _ := strings.Cut(string(readme), "```go\n")
	first, _, _ := strings.Cut(after, "```")
	assert.Equal(t, string(source), first)
	assert.LessOrEqual(t, strings.Count(first, "\n"), 15)
}

func TestHelp(t *testing.T) {
	child := exec.Command(os.Args[0], "-h")
	child.Env = append(os.Environ(), program+"=1")
	out, err := child.Output()
	require.NoError(t, err)
	assert.True(t, strings.HasPrefix(string(out), "Usage: "+filepath.Base(os.Args[0])+" [flags]\n\nTrains "), string(out))
	assert.Contains(t, string(out), "where to train: auto")
}

func TestReadsDigitsItHasNotLearned(t *testing.T) {
	testenv.RequireTorch(t)
	dir := t.TempDir()
	child := exec.Command(os.Args[0])
	child.Dir, child.Env = dir, append(os.Environ(), program+"=1", "OMP_NUM_THREADS=1") // quick on a busy machine
	out, err := child.CombinedOutput()
	require.NoError(t, err, string(out))
	log, err := os.Open(filepath.Join(dir, "runs", "digits", "metrics.jsonl"))
	require.NoError(t, err)
	defer log.Close()
	last := -1.0 // accuracy of the last evaluation
	for lines := bufio.NewScanner(log); lines.Scan(); {
		var row struct {
			Accuracy *float64 `json:"eval_accuracy"`
		}
		require.NoError(t, json.Unmarshal(lines.Bytes(), &row))
		if row.Accuracy != nil {
			last = *row.Accuracy
		}
	}
	assert.GreaterOrEqual(t, last, 0.95)
}
