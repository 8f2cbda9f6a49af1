package hub_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/hub"
)

// npmFolder is the variable that names a folder whose node_modules contains @huggingface/hub.
const npmFolder = "GOTRAINER_NPM_HUB"

// TestTheNPMClientWorksWithTheTestHub checks hubtest, and what the Go client pushed, against
// another official client.
func TestTheNPMClientWorksWithTheTestHub(t *testing.T) {
	folder := os.Getenv(npmFolder)
	if folder == "" {
		t.Skip(npmFolder + " names no folder in which `npm install --ignore-scripts @huggingface/hub` was run")
	}
	script, err := filepath.Abs(filepath.Join("testdata", "interop.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	w.PartSize = 300_000
	run := func(args ...string) string {
		c := exec.Command("node", append([]string{script}, args...)...)
		c.Dir = folder
		c.Env = append(os.Environ(), "HF_ENDPOINT="+w.URL, "HF_TOKEN="+token)
		var stderr bytes.Buffer
		c.Stderr = &stderr
		out, err := c.Output()
		if err != nil {
			t.Fatalf("interop.mjs %s: %v\n%s\nrequests: %v", args, err, stderr.String(), w.Requests())
		}
		return strings.TrimSpace(string(out))
	}
	files := map[string][]byte{"config.json": []byte("{}"), "model.safetensors": weights(t, 1, 1<<20)}
	dir := write(t, t.TempDir(), files)
	commit := run("upload", "me/npm", filepath.Join(dir, "config.json"), filepath.Join(dir, "model.safetensors"))
	if w.count("PUT", "/part/") == 0 {
		t.Error("npm sent nothing in parts: this test no longer sees what it should")
	}
	repo, err := w.client.Fetch(w.ctx, "me/npm", nil)
	if err != nil || repo.Commit != commit {
		t.Fatalf("Fetch = %+v, %v; npm made commit %s", repo, err, commit)
	}
	same(t, repo.Dir, files)

	if _, err := w.client.Push(w.ctx, "me/go", dir, hub.PushOptions{Private: true}); err != nil {
		t.Fatal(err)
	}
	want := sha256.Sum256(files["model.safetensors"])
	if got := run("download", "me/go", "model.safetensors"); got != hex.EncodeToString(want[:]) {
		t.Errorf("npm downloads something with the sum %s", got)
	}
}
