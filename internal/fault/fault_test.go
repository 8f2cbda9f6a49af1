package main

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/trainer"
)

// The table entries are tests themselves; these tests check that they would notice a difference.

func TestTwoRunsAreComparedByAllThatTheyLeave(t *testing.T) {
	left := func(run, row string, more ...string) map[string]string {
		dir := filepath.Join(t.TempDir(), run)
		require.NoError(t, os.Mkdir(dir, 0o777))
		for _, name := range append(more, "metrics.jsonl", ".lock") {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(row), 0o666))
		}
		all, err := bits(ending{outcomes: []string{`{"Update":3,"Warnings":["full"]}`}}, dir)
		require.NoError(t, err)
		return all
	}
	want := left("run-1", `{"loss":1,"train_runtime":2.5}`)
	assert.Len(t, want, 2, "the lock is not compared")
	assert.Empty(t, difference(want, left("run-2", `{"loss":1,"train_runtime":3.5}`)))
	assert.Equal(t, "metrics.jsonl differs", difference(want, left("run-3", `{"loss":2,"train_runtime":2.5}`)))
	assert.Equal(t, "x is left", difference(want, left("run-4", `{"loss":1,"train_runtime":2.5}`, "x")))
	delete(want, "metrics.jsonl")
	assert.Equal(t, "metrics.jsonl is left", difference(want, left("run-5", `{"loss":1}`)))
	want["metrics.csv"], want["metrics.jsonl"] = "a", `{"loss":1}`
	assert.Equal(t, "metrics.csv is missing", difference(want, left("run-6", `{"loss":1}`)))
}

func TestPlaceOfASaveIsNoDifference(t *testing.T) {
	early := map[string]string{"c/gotrainer_state.json": `{
  "position": {
    "at": "save",
    "micro_batches": 4
  }`}
	late := map[string]string{"c/gotrainer_state.json": `{
  "position": {
    "at": "final save",
    "micro_batches": 4
  }`}
	assert.NotEmpty(t, difference(early, late))
	assert.Empty(t, difference(place(early), place(late)))
}

func TestSlopeIsTheGrowthByUpdate(t *testing.T) {
	var samples []memory
	for i := range 100 {
		samples = append(samples, memory{Update: 10 * i, RSS: 5000 + 2.5*float64(10*i)})
	}
	assert.InDelta(t, 2.5, slope(samples, func(m memory) float64 { return m.RSS }), 1e-9)
}

// Each kind of damage changes the file, for any seed.
func TestEveryDamageChangesTheFile(t *testing.T) {
	for _, k := range damageKinds {
		for seed := range uint64(200) {
			dir := t.TempDir()
			a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
			text := "text\x00\x00\x00"
			require.NoError(t, os.WriteFile(a, []byte(text), 0o666))
			require.NoError(t, os.WriteFile(b, []byte("other"), 0o666))
			require.NoError(t, k.spoil(rand.New(rand.NewPCG(seed, 0)), a, b))
			got, _ := os.ReadFile(a) // a missing file counts as empty
			require.NotEqual(t, text, string(got), k.name)
		}
	}
}

func TestLogsAreComparedWithoutTimes(t *testing.T) {
	one, two := []trainer.Logs{{"loss": 1, "eval_runtime": 3}}, []trainer.Logs{{"loss": 1.0000001, "eval_runtime": 3}}
	assert.NotEqual(t, withoutTimes(one), withoutTimes(two))
	assert.Equal(t, withoutTimes(one), withoutTimes([]trainer.Logs{{"loss": 1, "eval_runtime": 4}}))
}

func TestChosenCallsAreSpread(t *testing.T) {
	b := &bench{random: rand.New(rand.NewPCG(1, 1))}
	assert.Equal(t, []int{0, 1, 2}, b.spread(3, 5), "all of them, if there are fewer")
	chosen := b.spread(1000, 10)
	for i, n := range chosen {
		assert.True(t, n >= 100*i && n < 100*(i+1), "%d in part %d", n, i)
	}
}
