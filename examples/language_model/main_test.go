package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/testenv"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// TestLearnsToCount trains on texts whose next word is certain and generates them. A second run
// generates with the model of the first, and a third fine-tunes it.
func TestLearnsToCount(t *testing.T) {
	testenv.RequireTorch(t)
	dir := t.TempDir()
	lines := filepath.Join(dir, "lines.txt")
	require.NoError(t, os.WriteFile(lines, []byte(strings.Repeat("one two three four five six seven\n\n", 400)), 0o600))
	args := []string{"-train", lines, "-out", filepath.Join(dir, "run"), "-device", "cpu", "-block", "16"}
	printed := program(t, append(args, "-epochs", "4"))
	var held int
	var perplexity float64
	_, err := fmt.Sscanf(printed, "perplexity of the %d blocks that were held out: %g", &held, &perplexity)
	require.NoError(t, err, printed)
	assert.Less(t, perplexity, 1.5)
	assert.Len(t, strings.Split(strings.TrimSpace(printed), "\n"), 4, "the perplexity and three texts")

	written := program(t, []string{"-out", filepath.Join(dir, "run"), "-write", "one two"})
	assert.Contains(t, written, "one two three four five six seven\n")
	written = program(t, []string{"-out", filepath.Join(dir, "run"), "-write", "one two", "-stop", "four f"})
	assert.Contains(t, written, "one two three four five\n")

	again := program(t, []string{"-train", lines, "-out", filepath.Join(dir, "again"), "-device", "cpu", "-block", "16",
		"-model", filepath.Join(dir, "run", "model"), "-epochs", "0.1", "-lr", "1e-5"})
	assert.Contains(t, again, "perplexity of the "+fmt.Sprint(held)+" blocks")

	adapted := filepath.Join(dir, "adapted")
	require.NoError(t, os.WriteFile(lines, []byte(strings.Repeat("seven six five four three two one\n", 400)), 0o600))
	printed = program(t, []string{"-train", lines, "-out", adapted, "-device", "cpu", "-block", "16", "-model",
		filepath.Join(dir, "run", "model"), "-lora", "16", "-epochs", "6", "-lr", "1e-2"})
	_, err = fmt.Sscanf(printed, "perplexity of the %d blocks that were held out: %g", &held, &perplexity)
	require.NoError(t, err, printed)
	assert.Less(t, perplexity, 10.0, "that of the model that it began with is 1245")
	assert.Contains(t, program(t, []string{"-out", adapted, "-write", "seven six"}), "seven six five four three")
	assert.FileExists(t, filepath.Join(adapted, "model", "adapter_model.safetensors"))
	assert.NoFileExists(t, filepath.Join(adapted, "model", "model.safetensors"))

	// two epochs, since bfloat16 is slow on many CPUs
	printed = program(t, []string{"-train", lines, "-out", adapted + "-4bit", "-device", "cpu", "-block", "16", "-model",
		filepath.Join(dir, "run", "model"), "-lora", "16", "-load_in_4bit", "-epochs", "2", "-lr", "1e-2"})
	_, err = fmt.Sscanf(printed, "perplexity of the %d blocks that were held out: %g", &held, &perplexity)
	require.NoError(t, err, printed)
	assert.Less(t, perplexity, 10.0, "beside weights in four bits")
}

// TestLearnsToAnswer trains on the assistant's replies in conversations; a second run answers.
func TestLearnsToAnswer(t *testing.T) {
	testenv.RequireTorch(t)
	dir := t.TempDir()
	chats := filepath.Join(dir, "chats.jsonl")
	var lines strings.Builder
	for range 40 {
		for _, pair := range [][2]string{{"count", "one two three"}, {"colours", "red blue green"}} {
			fmt.Fprintf(&lines, `{"messages": [{"role": "user", "content": %q}, {"role": "assistant", "content": %q}]}`+"\n",
				pair[0], pair[1])
		}
	}
	for range 20 { // two answers to one question
		for _, answer := range []string{"a b c", "x y z"} {
			fmt.Fprintf(&lines, `{"messages": [{"role": "user", "content": "letters"}, {"role": "assistant", "content": %q}]}`+"\n",
				answer)
		}
	}
	require.NoError(t, os.WriteFile(chats, []byte(lines.String()), 0o600))
	out := filepath.Join(dir, "run")
	printed := program(t, []string{"-chats", chats, "-out", out, "-device", "cpu", "-epochs", "8"})
	assert.Contains(t, printed, "perplexity of the 6 conversations that were held out: 1.")
	assert.Contains(t, printed, "\ncount\none two three\n")
	assert.Equal(t, "colours\nred blue green\n", program(t, []string{"-out", out, "-ask", "colours"}))

	for _, better := range []string{"a b c", "x y z"} { // and which of them is the better one
		worse := map[bool]string{true: "x y z", false: "a b c"}[better == "a b c"]
		line := fmt.Sprintf(`{"prompt": [{"role": "user", "content": "letters"}], "chosen": [{"role": "assistant", "content": %q}], `+
			`"rejected": [{"role": "assistant", "content": %q}]}`+"\n", better, worse)
		require.NoError(t, os.WriteFile(chats, []byte(strings.Repeat(line, 40)), 0o600))
		printed = program(t, []string{"-preferences", chats, "-model", filepath.Join(out, "model"), "-out",
			filepath.Join(dir, better), "-device", "cpu", "-epochs", "2", "-lr", "1e-4"})
		assert.Contains(t, printed, "of the 2 preferences that were held out the model has 100%, by ")
		assert.Contains(t, printed, "\nletters\n"+better+"\n")
	}
}

func program(t *testing.T, args []string) string {
	t.Helper()
	o, err := parse(args)
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, execute(t.Context(), o, &out))
	return out.String()
}

func TestWhatCannotBeIsRefused(t *testing.T) {
	for _, args := range [][]string{{"-epochs", "0"}, {"-epochs", "NaN"}, {"-lr", "-1"}, {"-block", "1"}, {"-seed", "-1"},
		{"more"}} {
		_, err := parse(args)
		require.ErrorContains(t, err, "want flags alone", "%q", args)
	}
	_, err := parse([]string{"-lora", "8"})
	require.ErrorContains(t, err, "and with it -model")
	_, err = parse([]string{"-load_in_4bit", "-model", "a"})
	require.ErrorContains(t, err, "want -lora with -load_in_4bit")
	for _, args := range [][]string{{"-train", "a", "-chats", "b"}, {"-preferences", "a", "-chats", "b"},
		{"-write", "a", "-ask", "b"}} {
		_, err := parse(args)
		require.ErrorContains(t, err, "one of -train, -chats and -preferences, and one of -write and -ask", "%q", args)
	}
	_, err = parse([]string{"-preferences", "a"})
	require.ErrorContains(t, err, "want -model with -preferences")
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.txt")
	require.NoError(t, os.WriteFile(empty, []byte("\n \n"), 0o600))
	_, err = read(empty)
	require.ErrorContains(t, err, "has no texts; want one in each line")
	_, err = read(filepath.Join(dir, "none.txt"))
	require.ErrorIs(t, err, os.ErrNotExist)
	err = execute(t.Context(), options{out: dir, write: "I"}, os.Stdout)
	require.ErrorContains(t, err, "there is no trained model to write with")

	testenv.RequireTorch(t)
	short := filepath.Join(dir, "short.txt")
	require.NoError(t, os.WriteFile(short, []byte("a few words"), 0o600))
	err = execute(t.Context(), options{train: short, out: dir, device: "cpu", block: 64, epochs: 1, rate: 1, seed: 1},
		os.Stdout)
	require.ErrorContains(t, err, "the texts are 0 blocks of 64 tokens; want at least 2")
	messages, err := read("")
	require.NoError(t, err)
	assert.Len(t, messages, 4827)
}
