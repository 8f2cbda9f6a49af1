package tcpstore_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/gotrainer/gotrainer/dist/tcpstore"
)

func open(t *testing.T) (*tcpstore.Server, *tcpstore.Client) {
	t.Helper()
	s, err := tcpstore.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, dial(t, s.Addr().String())
}

func dial(t *testing.T, address string) *tcpstore.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	c, err := tcpstore.Dial(ctx, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// talk tests a store through two clients, whichever implementation serves it.
func talk(t *testing.T, a, b *tcpstore.Client) {
	t.Helper()
	ctx := t.Context()
	if ready, err := b.Has(ctx, "late"); ready || err != nil {
		t.Errorf("Has before Set: %v, %v", ready, err)
	}
	got := make(chan string)
	go func() {
		v, err := b.Get(ctx, "late")
		got <- fmt.Sprintf("%s %v", v, err)
	}()
	if err := a.Set(ctx, "late", []byte("comes")); err != nil {
		t.Error(err)
	}
	if v := <-got; v != "comes <nil>" {
		t.Errorf("Get that waits: %s", v)
	}
	if err := a.Set(ctx, "empty", nil); err != nil {
		t.Error(err)
	}
	if v, err := b.Get(ctx, "empty"); len(v) != 0 || err != nil {
		t.Errorf("Get of an empty value: %q, %v", v, err)
	}
	for i, want := range []int64{5, 3} {
		n, err := a.Add(ctx, "count", []int64{5, -2}[i])
		if n != want || err != nil {
			t.Errorf("Add: %d, %v; want %d", n, err, want)
		}
	}
	if v, err := b.Get(ctx, "count"); string(v) != "3" || err != nil {
		t.Errorf("Get of a number: %q, %v", v, err)
	}
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := b.Get(short, "never"); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(),
		`"never"`) {
		t.Errorf("Get of a key that is never set: %v", err)
	}
}

func TestOurStore(t *testing.T) {
	s, c := open(t)
	talk(t, c, dial(t, s.Addr().String()))
}

// TestPythonsStore tests the client with both implementations of torch.distributed.TCPStore, and
// the server with a client in Python. It needs a Python with torch, whose path is in the variable
// PYTHON.
func TestPythonsStore(t *testing.T) {
	python := os.Getenv("PYTHON")
	if python == "" {
		t.Skip("the variable PYTHON does not name a Python that has torch")
	}
	for _, libuv := range []string{"True", "False"} {
		cmd := exec.CommandContext(t.Context(), python, "-c", `
import sys, torch.distributed as d
s = d.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, use_libuv=`+libuv+`)
print(s.port, flush=True)
sys.stdin.read()
print(s.get("late").decode(), s.get("count").decode())`)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		r := bufio.NewReader(out)
		port, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		address := "127.0.0.1:" + strings.TrimSpace(port)
		talk(t, dial(t, address), dial(t, address))
		_ = in.Close()
		rest, _ := io.ReadAll(r)
		if string(rest) != "comes 3\n" {
			t.Errorf("Python sees %q", rest)
		}
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	s, c := open(t)
	_, port, _ := net.SplitHostPort(s.Addr().String())
	out, err := exec.CommandContext(t.Context(), python, "-c", `
import torch.distributed as d
s = d.TCPStore("127.0.0.1", `+port+`, is_master=False, world_size=2)
s.set("from", "python")
print(s.add("n", 4), s.check(["from"]), s.check(["other"]), s.get("n").decode())`).CombinedOutput()
	if err != nil || string(out) != "4 True False 4\n" {
		t.Errorf("Python with our store: %v\n%s", err, out)
	}
	if v, err := c.Get(t.Context(), "from"); string(v) != "python" || err != nil {
		t.Errorf("%q, %v", v, err)
	}
}

func TestTheEndOfAStoreEndsItsClients(t *testing.T) {
	s, c := open(t)
	failed := make(chan error)
	go func() {
		_, err := c.Get(t.Context(), "never")
		failed <- err
	}()
	time.Sleep(20 * time.Millisecond)
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	if err := <-failed; err == nil {
		t.Error("Get from a closed store succeeded")
	}
}

func FuzzServer(f *testing.F) {
	hello := binary.LittleEndian.AppendUint32([]byte{0}, 0x3C85F7CE)
	key := append(binary.LittleEndian.AppendUint64(nil, 2), "/k"...)
	f.Add(append(append(hello[:5:5], 1), append(key, key...)...))
	f.Add(append(append(append(hello[:5:5], 4), key...), 1, 0, 0, 0, 0, 0, 0, 0))
	f.Add(append(append(hello[:5:5], 5), binary.LittleEndian.AppendUint64(nil, 1<<60)...))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, request []byte) {
		s, err := tcpstore.Listen("127.0.0.1:0")
		if err != nil {
			t.Skip(err)
		}
		conn, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Skip(err)
		}
		_, _ = conn.Write(request)
		_ = conn.Close()
		c, err := tcpstore.Dial(t.Context(), s.Addr().String())
		if err != nil {
			t.Fatal("the store no longer answers:", err)
		}
		if err := c.Set(t.Context(), "alive", nil); err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// When WaitClosed returns, either nothing listens at the store's address or the next store does.
func TestTheEndOfAStoreCanBeWaitedFor(t *testing.T) {
	s, err := tcpstore.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := s.Addr().String()
	c, err := tcpstore.Dial(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // the store has closed it
	brief, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := c.WaitClosed(brief); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), address) {
		t.Errorf("an open store: %v", err)
	}
	if err := c.WaitClosed(t.Context()); err == nil {
		t.Error("after an aborted call, a connection reports that an open store has closed")
	}
	ended := make(chan error)
	other, err := tcpstore.Dial(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close() //nolint:errcheck // the store has closed it
	go func() { ended <- other.WaitClosed(t.Context()) }()
	go s.Close() //nolint:errcheck // the next one listens, or does not
	if err := <-ended; err != nil {
		t.Errorf("a store that closes: %v", err)
	}
	next, err := tcpstore.Listen(address)
	if err != nil {
		t.Fatal(err)
	}
	_ = next.Close()
}
