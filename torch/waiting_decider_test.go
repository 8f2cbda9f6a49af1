package torch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// look is a measurement of a quarter of a second on two CPUs, during which the measuring thread was
// running all the time.
func look(others float64) cpuLoad {
	return cpuLoad{cpus: 2, elapsed: lookEvery, others: others, share: 1}
}

func TestThreadsWaitPassivelyWhileOthersUseTheCPUs(t *testing.T) {
	for name, c := range map[string]struct {
		load           cpuLoad
		threads, procs int
		passive        bool
		reason         string
	}{
		"alone":             {look(0.05), 2, 2, false, waitDefault},
		"one other process": {look(1), 2, 2, true, "other processes use the CPUs"},
		"others, and CPUs for them": {cpuLoad{cpus: 16, elapsed: lookEvery, others: 10, share: 1}, 4, 16, false,
			waitDefault},
		"one thread":               {look(2), 1, 2, false, "there is one thread"},
		"a quota":                  {look(0), 2, 1, true, "GOMAXPROCS, or the quota of the control group, is 1"},
		"a look too short to tell": {cpuLoad{2, time.Millisecond, 10, 1, 1000}, 2, 2, false, waitDefault},
		"more threads than CPUs":   {look(0), 4, 4, true, "other processes use the CPUs"},
		"loaders take the CPUs": {cpuLoad{2, lookEvery, 0, 0.5, 200}, 2, 2, true,
			"threads are kept from their CPUs"},
		"it waits for a batch": {cpuLoad{2, lookEvery, 0, 0.5, 2}, 2, 2, false, waitDefault},
		"another thread looks": {cpuLoad{2, lookEvery, 0, -1, 200}, 2, 2, false, waitDefault},
	} {
		var d waitDecider
		passive, reason := d.decide(c.load, c.threads, c.procs)
		assert.Equal(t, c.passive, passive, name)
		assert.Equal(t, c.reason, reason, name)
	}
}

func TestThreadsWaitActivelyAgainWhenTheCPUsHaveBeenQuietForAWhile(t *testing.T) {
	var d waitDecider
	after := func(others float64) time.Duration {
		for looks := time.Duration(1); looks < 10_000; looks++ {
			was := d.passive
			if passive, _ := d.decide(look(others), 2, 2); passive != was {
				return looks * lookEvery
			}
		}
		return 0
	}
	require.Equal(t, lookEvery, after(2))
	assert.Equal(t, shortQuiet, after(0))
	require.Equal(t, lookEvery, after(2), "the active time was short: the next wait is longer")
	assert.Equal(t, 2*shortQuiet, after(0))
	for range 20 {
		after(2)
		after(0)
	}
	after(2)
	assert.Equal(t, longQuiet, after(0), "the wait has an upper limit")

	for range 5 * longQuiet / lookEvery {
		d.decide(look(0), 2, 2)
	}
	after(2)
	assert.Equal(t, shortQuiet, after(0), "a long active time makes the next wait short again")
}

func TestAProcessThatComesBackKeepsThreadsPassive(t *testing.T) {
	var d waitDecider
	d.decide(look(1), 2, 2)
	for k := range 1000 {
		passive, _ := d.decide(look(float64(k%4/3)), 2, 2) // busy in every fourth measurement
		require.True(t, passive)
	}
}

func TestWaitDeciderAcceptsAnyNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var d waitDecider
		for range 50 {
			l := cpuLoad{rapid.IntRange(1, 300).Draw(t, "cpus"), time.Duration(rapid.Int64Range(1, 1e12).Draw(t,
				"elapsed")),
				rapid.Float64().Draw(t, "others"), rapid.Float64().Draw(t, "share"), rapid.Float64().Draw(t,
					"preempted")}
			passive, reason := d.decide(l, rapid.IntRange(1, 300).Draw(t, "threads"), rapid.IntRange(1, 300).Draw(t,
				"procs"))
			require.NotEmpty(t, reason)
			require.Equal(t, d.passive, passive)
			require.LessOrEqual(t, d.patience, longQuiet)
		}
	})
}

func TestUsageBetweenTwoLooks(t *testing.T) {
	former := usage{cpus: 4, at: time.Second, busy: 10 * time.Second, own: 2 * time.Second, thread: 7,
		ofThread: time.Second, preempted: 5}
	now := usage{cpus: 4, at: 3 * time.Second, busy: 15 * time.Second, own: 4 * time.Second, thread: 7,
		ofThread: 2 * time.Second, preempted: 25}
	assert.Equal(t, cpuLoad{4, 2 * time.Second, 1.5, 0.5, 10}, now.since(former))
	now.thread = 8
	assert.Negative(t, now.since(former).share)
	now.own += time.Minute
	assert.Zero(t, now.since(former).others, "rounding of CPU times does not make the load negative")
	assert.NotPanics(t, func() { now.since(now) })
}

func TestHowManyThreadsSuitCPUsThatOthersUseToo(t *testing.T) {
	for _, c := range []struct {
		cpus, wanted int
		others       float64
		passive      bool
		want         int
	}{
		{2, 2, 1, true, 1},
		{2, 2, 1.3, true, 1},
		{2, 2, 0.4, true, 2},
		{2, 2, 5, true, 1},
		{16, 16, 3, true, 13},
		{16, 16, 14, true, 8}, // at least half of them
		{16, 4, 14, true, 2},
		{16, 4, 8, true, 4},
		{4, 1, 4, true, 1},
		{2, 2, 0.2, false, 2}, // too little to wait passively
	} {
		got := threadsBeside(cpuLoad{cpus: c.cpus, others: c.others}, c.wanted, c.passive)
		assert.Equal(t, c.want, got, "%+v", c)
	}
}
