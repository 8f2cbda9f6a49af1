package hub_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/hub"
	"github.com/gotrainer/gotrainer/hub/hubtest"
)

// python runs scripts/hub_interop.py with Python's huggingface_hub and returns its last line of
// output. PYTHON names the interpreter.
func python(t *testing.T, w *world, args ...string) string {
	t.Helper()
	name := os.Getenv("PYTHON")
	if name == "" {
		name = "python3"
	}
	if err := exec.Command(name, "-c", "import huggingface_hub").Run(); err != nil {
		t.Skipf("%s has no huggingface_hub (%v); PYTHON names another interpreter", name, err)
	}
	c := exec.Command(name, append([]string{filepath.Join("..", "scripts", "hub_interop.py")}, args...)...)
	c.Env = append(os.Environ(), "HF_ENDPOINT="+w.URL, "HF_TOKEN="+token, "HF_HUB_CACHE="+w.client.CacheDir)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("hub_interop.py %s: %v\n%s\nrequests: %v", strings.Join(args, " "), err, stderr.String(), w.Requests())
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}

func TestPythonFetchesWhatGoPushed(t *testing.T) {
	w := newWorld(t)
	files := map[string][]byte{"config.json": []byte("{}"), "a/model.safetensors": weights(t, 1, 1<<20)}
	if _, err := w.client.Push(w.ctx, "me/bert", write(t, t.TempDir(), files),
		hub.PushOptions{Private: true}); err != nil {
		t.Fatal(err)
	}
	same(t, python(t, w, "download", "me/bert"), files)
	w.ForgetRequests()
	repo, err := w.client.Fetch(w.ctx, "me/bert", nil) // from the cache that Python made
	if err != nil {
		t.Fatal(err)
	}
	same(t, repo.Dir, files)
	if len(w.Requests()) != 1 {
		t.Errorf("Go asked for more than the branch: %v", w.Requests())
	}
	w.client.Offline = true
	if _, err := w.client.Fetch(w.ctx, "me/bert", nil); err != nil {
		t.Errorf("offline, from Python's cache: %v", err)
	}
}

func TestPythonUsesTheCacheThatGoMade(t *testing.T) {
	w := newWorld(t)
	commit, files := w.model("me/bert")
	repo, err := w.client.Fetch(w.ctx, "me/bert", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.client.File(w.ctx, "me/bert", "no.json", nil); err == nil {
		t.Fatal("no.json is there")
	}
	w.ForgetRequests()
	if dir := python(t, w, "offline", "me/bert"); dir != repo.Dir {
		t.Errorf("Python finds %s offline, Go %s", dir, repo.Dir)
	}
	if path := python(t, w, "cached", "me/bert", "config.json"); path != repo.Path("config.json") {
		t.Errorf("Python finds %s", path)
	}
	if answer := python(t, w, "cached", "me/bert", "no.json"); answer != "known to be missing" {
		t.Errorf("Python says of no.json: %s", answer)
	}
	if len(w.Requests()) != 0 {
		t.Errorf("requests: %v", w.Requests())
	}
	same(t, python(t, w, "download", "me/bert"), files)
	for _, r := range w.Requests() {
		if r.Method == "GET" && strings.Contains(r.Path, "/resolve/") || r.CDN {
			t.Errorf("Python fetched again: %v", r)
		}
	}
	if got := w.Head(hubtest.Model, "me/bert", "main"); got != commit {
		t.Errorf("main is at %s", got)
	}
}

func TestGoFetchesWhatPythonPushed(t *testing.T) {
	w := newWorld(t)
	w.PartSize = 300_000
	files := map[string][]byte{"config.json": []byte("{}"), "README.md": []byte("---\nlicense: mit\n---\n# x\n"),
		"a/model.safetensors": weights(t, 1, 1<<20), "small.bin": noise(2, 100)}
	commit := python(t, w, "upload", "me/py", write(t, t.TempDir(), files))
	repo, err := w.client.Fetch(w.ctx, "me/py", &hub.FetchOptions{Revision: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	same(t, repo.Dir, files)
	if repo.Commit != commit {
		t.Errorf("Go fetched %s, Python made %s", repo.Commit, commit)
	}
	if w.count("PUT", "/part/") == 0 {
		t.Error("Python sent nothing in parts: this test no longer sees what it should")
	}
	path := python(t, w, "file", "me/py", "small.bin")
	same(t, filepath.Dir(path), map[string][]byte{"small.bin": files["small.bin"]})
}
