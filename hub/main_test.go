package hub_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gotrainer/gotrainer/hub"
	"github.com/gotrainer/gotrainer/hub/hubtest"
	"github.com/gotrainer/gotrainer/internal/leaks"
)

// token is the canary: no log, error or file may contain it.
const token = "hf_CANARYcanaryCANARYcanary"

// TestMain isolates the tests from the user's settings and cache.
func TestMain(m *testing.M) {
	for _, e := range os.Environ() {
		if name, _, _ := strings.Cut(e, "="); strings.HasPrefix(name, "HF_") || strings.HasPrefix(name, "HUGGING") ||
			name == "TRANSFORMERS_OFFLINE" {
			os.Unsetenv(name)
		}
	}
	home, err := os.MkdirTemp("", "hub-test-home-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Setenv("HF_HOME", home)
	os.Setenv("HF_ENDPOINT", "http://127.0.0.1:1") // no test may reach the real Hub by mistake
	code := m.Run()
	os.RemoveAll(home)
	http.DefaultClient.CloseIdleConnections()
	os.Exit(leaks.Check(code))
}

// world is a Hub with a client that logs to a buffer and does not wait between retries, but records
// the waiting times.
type world struct {
	*hubtest.Server
	client *hub.Client
	ctx    context.Context
	log    *safeBuffer

	mu     sync.Mutex
	pauses []time.Duration
}

func newWorld(t *testing.T) *world {
	t.Helper()
	server, err := hubtest.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	server.AddUser("me", token, "org")
	server.AddReader("guest", "hf_guest")
	w := &world{Server: server, log: &safeBuffer{}}
	w.client = &hub.Client{
		Endpoint: server.URL, CacheDir: t.TempDir(), Token: hub.NewSecret(token), Retries: 3, Timeout: 20 * time.Second,
		Log: slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	w.ctx = hub.WithSleep(t.Context(), func(ctx context.Context, d time.Duration) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.pauses = append(w.pauses, d)
		return ctx.Err()
	})
	t.Cleanup(func() {
		if strings.Contains(w.log.String(), "CANARY") {
			t.Errorf("the token is in the log:\n%s", w.log)
		}
		noCanary(t, w.client.CacheDir)
	})
	return w
}

// model creates a public repository with a small file, one in a folder and a large one.
func (w *world) model(id string) (commit string, files map[string][]byte) {
	w.CreateRepo(hubtest.Model, id, hubtest.Public)
	files = map[string][]byte{
		"config.json":       []byte(`{"model_type": "bert"}`),
		"onnx/config.json":  []byte(`{}`),
		"empty.txt":         {},
		"model.safetensors": noise(1, 3<<20+17),
	}
	return w.Commit(hubtest.Model, id, "main", files), files
}

// count returns how many requests had this method and a path that contains part.
func (w *world) count(method, part string) int {
	n := 0
	for _, r := range w.Requests() {
		if r.Method == method && strings.Contains(r.Path, part) {
			n++
		}
	}
	return n
}

// ranges returns the Range headers of the requests whose path contains part.
func (w *world) ranges(part string) (out []string) {
	for _, r := range w.Requests() {
		if strings.Contains(r.Path, part) {
			out = append(out, r.Range)
		}
	}
	return out
}

func noise(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(r.Uint32())
	}
	return out
}

// same compares the files of a folder with the expected ones.
func same(t *testing.T, dir string, want map[string][]byte) {
	t.Helper()
	for name, content := range want {
		got, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil || !bytes.Equal(got, content) {
			t.Errorf("%s: %d bytes, %v; want the %d bytes of the repository", name, len(got), err, len(content))
		}
	}
}

// tree lists the files below a folder.
func tree(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(name string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			relative, _ := filepath.Rel(dir, name)
			names = append(names, filepath.ToSlash(relative))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

// noCanary checks that no file of a folder contains the token.
func noCanary(t *testing.T, dir string) {
	t.Helper()
	for _, name := range tree(t, dir) {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil && bytes.Contains(content, []byte("CANARY")) {
			t.Errorf("the token is in %s", name)
		}
	}
}

// write creates a folder with files.
func write(t *testing.T, dir string, files map[string][]byte) string {
	t.Helper()
	for name, content := range files {
		full := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(full), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, content, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
