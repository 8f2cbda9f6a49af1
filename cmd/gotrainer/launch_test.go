package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/dist/launch"
)

func TestLaunchLeavesTheProgramItsFlags(t *testing.T) {
	for _, c := range []struct {
		args    []string
		command []string
	}{
		{[]string{"launch", "-n", "2", "./train", "-n", "7", "--epochs=3"}, []string{"./train", "-n", "7",
			"--epochs=3"}},
		{[]string{"launch", "--nproc-per-node", "2", "--nnodes=2", "--node-rank=1", "--master=a:1", "./train"},
			[]string{"./train"}},
	} {
		var all commands
		parser, err := kong.New(&all)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parser.Parse(c.args); err != nil {
			t.Fatal(err)
		}
		if all.Launch.Processes != 2 || !reflect.DeepEqual(all.Launch.Command, c.command) {
			t.Errorf("%q: %+v, want the command %q", c.args, all.Launch, c.command)
		}
	}
}

func TestLaunchTakesWhatKubeflowSays(t *testing.T) {
	job := map[string]string{"PET_NNODES": "2", "PET_NPROC_PER_NODE": "4", "PET_NODE_RANK": "1",
		"PET_MASTER_ADDR": "job-node-0-0.job", "PET_MASTER_PORT": "29400", "PET_MAX_RESTARTS": "3"}
	for _, c := range []struct {
		claim   string
		change  map[string]string
		flags   launchCommand
		want    launch.Options
		refused string
	}{
		{"all of it", nil, launchCommand{}, launch.Options{Processes: 4, Nodes: 2, NodeRank: 1, MaxRestarts: 3,
			Master: "job-node-0-0.job:29400"}, ""},
		{"flags go before it", nil, launchCommand{Processes: 2, NodeRank: new(0), Restarts: new(0)},
			launch.Options{Processes: 2, Nodes: 2, Master: "job-node-0-0.job:29400"}, ""},
		{"one machine", map[string]string{"PET_NNODES": "1:1", "PET_NODE_RANK": "0"}, launchCommand{},
			launch.Options{Processes: 4, Nodes: 1, MaxRestarts: 3}, ""},
		{"as many as there are processors", map[string]string{"PET_NPROC_PER_NODE": "cpu"}, launchCommand{},
			launch.Options{Processes: runtime.NumCPU(), Nodes: 2, NodeRank: 1, MaxRestarts: 3,
				Master: "job-node-0-0.job:29400"}, ""},
		{"machines that come and go", map[string]string{"PET_NNODES": "1:4"}, launchCommand{}, launch.Options{},
			"PET_NNODES=1:4 is a variable number of machines"},
		{"torchrun's rendezvous", map[string]string{"PET_RDZV_BACKEND": "c10d"}, launchCommand{}, launch.Options{},
			"start torchrun --no-python, or leave out the job's elasticPolicy"},
		{"a number of machines below zero", nil, launchCommand{Processes: 2, Nodes: -2}, launch.Options{},
			"of -2 num_machines"},
		{"no number", map[string]string{"PET_NODE_RANK": "x"}, launchCommand{}, launch.Options{},
			`PET_NODE_RANK="x"; want a number of at least 0`},
	} {
		t.Run(c.claim, func(t *testing.T) {
			t.Setenv("HF_HOME", t.TempDir())
			for name := range job {
				t.Setenv(name, job[name])
			}
			for name, value := range c.change {
				t.Setenv(name, value)
			}
			c.flags.Command = []string{"./train"}
			got, err := c.flags.options()
			if c.refused != "" {
				assert.ErrorContains(t, err, c.refused)
				return
			}
			require.NoError(t, err)
			assert.Empty(t, got.Env)
			got.Env, c.want.Command = nil, c.flags.Command
			assert.Equal(t, c.want, got)
		})
	}
}

// Of "gotrainer launch ... | tee log", Ctrl-C ends tee too.
func TestProcessesSaveThoughNobodyReadsTheOutput(t *testing.T) {
	const variable = "GOTRAINER_TEST_LAUNCH"
	if file := os.Getenv(variable); file != "" {
		os.Args = []string{"gotrainer", "launch", "-n", "1", "sh", "-c",
			`trap 'echo saves; sleep 0.2; echo saved; touch "$0"; exit 0' INT; echo begun; while :; do sleep 0.05; done`, file}
		main()
	}
	saved := filepath.Join(t.TempDir(), "saved")
	child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$") //nolint:gosec // the test itself
	child.Env = append(os.Environ(), variable+"="+saved)
	stdout, err := child.StdoutPipe()
	require.NoError(t, err)
	stderr, err := child.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	assert.Contains(t, line, "begun")
	require.NoError(t, stdout.Close())
	require.NoError(t, stderr.Close())
	require.NoError(t, child.Process.Signal(os.Interrupt))
	_ = child.Wait() // the code is looked at
	assert.NotEqual(t, -1, child.ProcessState.ExitCode(), "ended by a signal")
	assert.FileExists(t, saved)
}
