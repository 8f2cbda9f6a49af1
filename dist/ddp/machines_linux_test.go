package ddp_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

const machineVariable = "DDP_TEST_MACHINE"

// machines are two network namespaces with a cable between them: 10.77.0.1 and 10.77.0.2.
type machines struct{ names, cards [2]string }

// newMachines skips the test where namespaces cannot be made.
func newMachines(t *testing.T) (m machines) {
	t.Helper()
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("two machines are network namespaces, which need the command ip (package iproute2)")
	}
	for i, side := range []string{"a", "b"} {
		m.names[i], m.cards[i] = fmt.Sprint("gotrainer-", os.Getpid(), side), fmt.Sprint("gt", os.Getpid(), side)
		if out, err := exec.Command("ip", "netns", "add", m.names[i]).CombinedOutput(); err != nil {
			t.Skipf("two machines are network namespaces, which need root: %v: %s", err, out)
		}
		t.Cleanup(func() { _ = exec.Command("ip", "netns", "delete", m.names[i]).Run() })
	}
	ip(t, "link", "add", m.cards[0], "netns", m.names[0], "type", "veth", "peer", "name", m.cards[1], "netns", m.names[1])
	for i, name := range m.names {
		ip(t, "-n", name, "link", "set", "lo", "up")
		ip(t, "-n", name, "address", "add", fmt.Sprintf("10.77.0.%d/24", i+1), "dev", m.cards[i])
		ip(t, "-n", name, "link", "set", m.cards[i], "up")
	}
	return m
}

func ip(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.Command("ip", args...).CombinedOutput()
	require.NoError(t, err, "ip %v: %s", args, out)
}

// TestMachineChild is a process of TestAMachineThatIsCutOffIsNamed.
func TestMachineChild(t *testing.T) {
	if os.Getenv(machineVariable) == "" {
		t.Skip("it runs in processes that TestAMachineThatIsCutOffIsNamed starts")
	}
	ctx := t.Context()
	g, err := dist.Init(ctx, dist.Options{JoinTimeout: time.Minute, PeerTimeout: 2 * time.Second})
	require.NoError(t, err)
	defer func() { _ = g.Close() }()
	for call := 0; err == nil; call++ {
		x := torch.Full(float64(g.Rank()), 1<<16)
		if err = ddp.AllReduce(ctx, g, dist.Sum, x); err == nil {
			require.EqualValues(t, 6, x.Select(0, 1<<16-1).Item())
		}
		x.Free()
		if call == 20 {
			fmt.Println("READY")
		}
	}
	fmt.Println("ENDED:", err)
}

func TestAMachineThatIsCutOffIsNamed(t *testing.T) {
	testenv.RequireTorch(t)
	if testing.Short() {
		t.Skip("it starts four processes")
	}
	m := newMachines(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var outputs [4]*bufio.Reader
	for rank := range outputs {
		c := exec.CommandContext(ctx, "ip", "netns", "exec", m.names[rank/2], os.Args[0], "-test.run=^TestMachineChild$")
		c.Env = append(os.Environ(), machineVariable+"=1", fmt.Sprint("RANK=", rank), fmt.Sprint("LOCAL_RANK=", rank%2),
			"WORLD_SIZE=4", "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=10.77.0.1", "MASTER_PORT=29500")
		out, err := c.StdoutPipe()
		require.NoError(t, err)
		c.Stderr = c.Stdout
		require.NoError(t, c.Start())
		t.Cleanup(func() { _ = c.Wait() })
		outputs[rank] = bufio.NewReader(out)
	}
	for rank, out := range outputs {
		for line := ""; !strings.HasPrefix(line, "READY"); {
			var err error
			line, err = out.ReadString('\n')
			require.NoError(t, err, "rank %d has not come to its calls", rank)
		}
	}
	ip(t, "-n", m.names[1], "link", "set", m.cards[1], "down") // nobody is told: no packet goes either way

	elsewhere := [2]*regexp.Regexp{regexp.MustCompile(`ENDED: .*rank [23]`), regexp.MustCompile(`ENDED: .*rank [01]`)}
	for rank, out := range outputs {
		rest, err := io.ReadAll(out)
		assert.NoError(t, err)
		assert.Regexp(t, elsewhere[rank/2], string(rest), "rank %d", rank)
		t.Logf("rank %d: %s", rank, rest)
	}
}
