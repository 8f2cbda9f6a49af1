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

// machines are network namespaces connected by a switch, which is a namespace too. Their addresses
// are 10.77.0.1, 10.77.0.2 and so on.
type machines struct{ names, cards []string }

// newMachines skips the test if namespaces cannot be created.
func newMachines(t *testing.T, n int) (m machines) {
	t.Helper()
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("machines are network namespaces, which need the command ip (package iproute2)")
	}
	namespace := func(name string) string {
		name = fmt.Sprint("gotrainer-", os.Getpid(), name)
		if out, err := exec.Command("ip", "netns", "add", name).CombinedOutput(); err != nil {
			t.Skipf("machines are network namespaces, which need root: %v: %s", err, out)
		}
		t.Cleanup(func() { _ = exec.Command("ip", "netns", "delete", name).Run() })
		return name
	}
	hub := namespace("hub")
	if out, err := exec.Command("ip", "-n", hub, "link", "add", "switch", "type", "bridge").CombinedOutput(); err != nil {
		t.Skipf("the switch between the machines cannot be created: %v: %s", err, out)
	}
	ip(t, "-n", hub, "link", "set", "switch", "up")
	for i := range n {
		name, card := namespace(fmt.Sprint(i)), fmt.Sprint("gt", os.Getpid(), "-", i)
		port := fmt.Sprint("port", i)
		ip(t, "link", "add", card, "netns", name, "type", "veth", "peer", "name", port, "netns", hub)
		ip(t, "-n", hub, "link", "set", port, "master", "switch", "up")
		ip(t, "-n", name, "link", "set", "lo", "up")
		ip(t, "-n", name, "address", "add", fmt.Sprintf("10.77.0.%d/24", i+1), "dev", card)
		ip(t, "-n", name, "link", "set", card, "up")
		m.names, m.cards = append(m.names, name), append(m.cards, card)
	}
	return m
}

// cut disconnects a machine from the switch: packets are dropped silently in both directions.
func (m machines) cut(t *testing.T, i int) {
	ip(t, "-n", m.names[i], "link", "set", m.cards[i], "down")
}

func ip(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.Command("ip", args...).CombinedOutput()
	require.NoError(t, err, "ip %v: %s", args, out)
}

// TestMachineChild is the main function of the processes that runOn starts.
func TestMachineChild(t *testing.T) {
	if os.Getenv(machineVariable) == "" {
		t.Skip("it runs in processes that other tests of this file start")
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

// runOn starts four ranks, each on the given machine, and disconnects one machine while they run
// all-reduces. It returns what each printed from then on. dist.Options.Timeout is half an hour, so
// whatever ends within this test's two minutes was ended by PeerTimeout, 2 seconds.
func runOn(t *testing.T, m machines, places [4]int, off int) (rest [4]string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var outputs [4]*bufio.Reader
	there := map[int]int{} // number of ranks on each machine
	for _, machine := range places {
		there[machine]++
	}
	local := map[int]int{}
	for rank, machine := range places {
		c := exec.CommandContext(ctx, "ip", "netns", "exec", m.names[machine], os.Args[0], "-test.run=^TestMachineChild$")
		c.Env = append(os.Environ(), machineVariable+"=1", fmt.Sprint("RANK=", rank),
			fmt.Sprint("LOCAL_RANK=", local[machine]), "WORLD_SIZE=4", fmt.Sprint("LOCAL_WORLD_SIZE=", there[machine]),
			"MASTER_ADDR=10.77.0.1", "MASTER_PORT=29500")
		local[machine]++
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
	m.cut(t, off)
	for rank, out := range outputs {
		text, err := io.ReadAll(out)
		assert.NoError(t, err)
		rest[rank] = string(text)
		t.Logf("rank %d: %s", rank, text)
	}
	return rest
}

func TestAMachineThatIsCutOffIsNamed(t *testing.T) {
	testenv.RequireTorch(t)
	if testing.Short() {
		t.Skip("it starts four processes")
	}
	elsewhere := [2]*regexp.Regexp{regexp.MustCompile(`ENDED: .*rank [23]`), regexp.MustCompile(`ENDED: .*rank [01]`)}
	for rank, rest := range runOn(t, newMachines(t, 2), [4]int{0, 0, 1, 1}, 1) {
		assert.Regexp(t, elsewhere[rank/2], rest, "rank %d", rank)
	}
}

// Rank 0 serves the store and coordinates all calls. When its machine is lost, every other process
// notices by itself and names it.
func TestTheMachineOfRank0ThatIsCutOffIsNamed(t *testing.T) {
	testenv.RequireTorch(t)
	if testing.Short() {
		t.Skip("it starts four processes")
	}
	for rank, rest := range runOn(t, newMachines(t, 3), [4]int{0, 1, 1, 2}, 0) {
		if rank == 0 {
			assert.Regexp(t, `ENDED: dist: rank 0: .*: rank [123]: `+dist.ErrPeerLost.Error(), rest)
			continue
		}
		assert.Regexp(t, fmt.Sprintf(`ENDED: dist: rank %d: AllReduce.*: rank 0: %s`, rank, dist.ErrPeerLost), rest)
	}
}
