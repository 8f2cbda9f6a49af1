package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/text"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// printed runs the command and returns its output.
func printed(t *testing.T, args ...string) (string, error) {
	t.Helper()
	o, err := parse(args)
	if err != nil {
		return "", err
	}
	return testenv.Stdout(t, func() error { return execute(context.Background(), o) })
}

// mrpc writes a tiny MRPC, in which two texts are paraphrases if they are equal.
func mrpc(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for part, n := range map[string]int{"train": 804, "dev": 40} {
		var b strings.Builder
		b.WriteString("\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n")
		for i := range n {
			animal := []string{"cat", "dog", "owl"}[i%3]
			fmt.Fprintf(&b, "%d\t1\t2\tThe %s slept.\t%s\n", i%2, animal, []string{"A bird sang.", "The " + animal +
				" slept."}[i%2])
		}
		if err := os.WriteFile(filepath.Join(dir, part+".tsv"), []byte(b.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestBothLoopsPrintTheSameNumbers tests that in float32 the accelerated loop computes bitwise the
// same as the bare one.
func TestBothLoopsPrintTheSameNumbers(t *testing.T) {
	testenv.RequireTorch(t)
	dir := mrpc(t)
	plain, err := printed(t, "-data", dir, "-epochs", "1")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(plain, "804 texts to learn from, 40 to evaluate with; 101 batches an epoch, 101 "+
		"updates\nupdate 100 loss ") {
		t.Errorf("printed %q", plain)
	}
	if !strings.HasSuffix(plain, "\naccuracy 1.0 f1 1.0\n") {
		t.Errorf("the loop has not learnt that equal texts are paraphrases: %q", plain)
	}
	with, err := printed(t, "-data", dir, "-epochs", "1", "-accelerate")
	if err != nil || with != plain {
		t.Errorf("-accelerate printed %q, error %v; want %q", with, err, plain)
	}
	low, err := printed(t, "-data", dir, "-epochs", "1", "-accelerate", "-mixed-precision", "bf16")
	if err != nil || !strings.HasSuffix(low, "\naccuracy 1.0 f1 1.0\n") || low == plain {
		t.Errorf("in bfloat16 it printed %q, error %v; want another loss and the same scores", low, err)
	}
}

// TestTokenizerThatPadsIsNotObeyed tests that the program ignores the padding of a tokenizer.json:
// a sample has no mask that would hide the padding from the model.
func TestTokenizerThatPadsIsNotObeyed(t *testing.T) {
	testenv.RequireTorch(t)
	o, err := parse([]string{"-data", mrpc(t)})
	require.NoError(t, err)
	want, err := prepare(t.Context(), o)
	require.NoError(t, err)
	train, _, err := texts(t.Context(), o)
	require.NoError(t, err)
	tokenizer, model, err := modelOf(o, train)
	require.NoError(t, err)
	tokenizer, err = tokenizer.WithPadding(&text.Padding{Length: 32})
	require.NoError(t, err)
	o.model = t.TempDir()
	require.NoError(t, model.Save(o.model))
	require.NoError(t, tokenizer.Save(o.model))
	got, err := prepare(t.Context(), o)
	require.NoError(t, err)
	assert.Equal(t, want.train, got.train)
	assert.Equal(t, want.valid, got.valid)
}

// TestFindsSpam trains an epoch of the default task, which must beat always answering ham.
func TestFindsSpam(t *testing.T) {
	testenv.RequireTorch(t)
	if testing.Short() {
		t.Skip("trains for some seconds")
	}
	text, err := printed(t, "-epochs", "1")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`accuracy (\S+) f1 (\S+)\n$`).FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("printed no accuracy: %q", text)
	}
	if accuracy, err := strconv.ParseFloat(found[1], 64); err != nil || accuracy < 0.93 {
		t.Errorf("accuracy %s, want at least 0.93: always ham has 0.87 (error %v)", found[1], err)
	}
}

func TestACancelledContextEndsTheLoops(t *testing.T) {
	testenv.RequireTorch(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, args := range [][]string{{"-data", mrpc(t)}, {"-data", mrpc(t), "-accelerate"}} {
		o, err := parse(args)
		if err != nil {
			t.Fatal(err)
		}
		if err := execute(ctx, o); err == nil || !strings.Contains(err.Error(), context.Canceled.Error()) {
			t.Errorf("%v: error %v, want %v", args, err, context.Canceled)
		}
	}
}

func TestWrongCommandLinesAreSentences(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"x"}, "is not a flag"},
		{[]string{"-mixed-precision", "bf16"}, "needs -accelerate"},
		{[]string{"-mixed-precision", "fp8"}, "fp8"},
		{[]string{"-epochs", "0"}, "at least 1"},
	} {
		if _, err := parse(c.args); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: error %v, want one with %q", c.args, err, c.want)
		}
	}
	testenv.RequireTorch(t)
	nothing := filepath.Join(t.TempDir(), "nothing")
	for _, args := range [][]string{{"-data", nothing}, {"-data", mrpc(t), "-model", nothing}} {
		if _, err := printed(t, args...); err == nil || !strings.Contains(err.Error(), nothing) {
			t.Errorf("%v: error %v, want one that names %s", args, err, nothing)
		}
	}
}
