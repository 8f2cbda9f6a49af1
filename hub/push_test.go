package hub_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gotrainer/gotrainer/hub"
	"github.com/gotrainer/gotrainer/hub/hubtest"
	"github.com/gotrainer/gotrainer/safetensors"
)

// weights returns a safetensors file with n bytes of data.
func weights(t *testing.T, seed uint64, n int) []byte {
	t.Helper()
	var out bytes.Buffer
	err := safetensors.Write(&out, []safetensors.Entry{{Name: "w", DType: safetensors.U8, Shape: []int64{int64(n)},
		Data: safetensors.Bytes(noise(seed, n))}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// remote compares the files of a branch with the expected ones, ignoring the initial
// .gitattributes.
func remote(t *testing.T, w *world, id, branch string, want map[string][]byte) {
	t.Helper()
	got := w.Files(hubtest.Model, id, branch)
	delete(got, ".gitattributes")
	for name, content := range want {
		if !bytes.Equal(got[name], content) {
			t.Errorf("%s on the Hub has %d bytes, want %d", name, len(got[name]), len(content))
		}
		delete(got, name)
	}
	for name := range got {
		t.Errorf("%s is on the Hub and should not be", name)
	}
}

func TestPush(t *testing.T) {
	w := newWorld(t)
	files := map[string][]byte{"config.json": []byte("{}"), "model.safetensors": weights(t, 1, 1<<20),
		"a/b/vocab.txt": []byte("a\nb\n"), "empty.bin": {}}
	dir := write(t, t.TempDir(), files)
	write(t, dir, map[string][]byte{".git/config": []byte("x"), ".cache/huggingface/x": []byte("x"),
		"debug.log": []byte("x")})
	var last hub.Progress
	done, err := w.client.Push(w.ctx, "me/bert", dir, hub.PushOptions{Private: true, Message: "first",
		Ignore: []string{"*.log"}, Progress: func(p hub.Progress) { last = p }})
	if err != nil {
		t.Fatal(err)
	}
	remote(t, w, "me/bert", "main", files)
	if head := w.Head(hubtest.Model, "me/bert", "main"); done.ID != head || done.Unchanged ||
		!strings.Contains(done.URL, head) {
		t.Errorf("Push = %+v, want commit %s", done, head)
	}
	if log := w.Log(hubtest.Model, "me/bert", "main"); !slices.Equal(log, []string{"first", "initial commit"}) {
		t.Errorf("commits %q", log)
	}
	if last.AllDone != last.AllTotal || last.Files != last.AllFiles || last.AllFiles != 4 {
		t.Errorf("the last report is %+v, want all of 4 files", last)
	}
	anonymous := hub.Client{Endpoint: w.URL, CacheDir: t.TempDir(), Anonymous: true}
	if _, err := anonymous.Fetch(w.ctx, "me/bert", nil); !errors.Is(err, hub.ErrRepoNotFound) {
		t.Errorf("a stranger's Fetch of the private model: %v", err)
	}
	repo, err := w.client.Fetch(w.ctx, "me/bert", nil)
	if err != nil {
		t.Fatal(err)
	}
	same(t, repo.Dir, files)

	w.ForgetRequests()
	done, err = w.client.Push(w.ctx, "me/bert", repo.Dir, hub.PushOptions{}) // out of the cache: links to blobs
	if err != nil || !done.Unchanged {
		t.Errorf("Push of what is there = %+v, %v; want no commit", done, err)
	}
	if w.count("POST", "/commit/")+w.count("PUT", "") != 0 {
		t.Errorf("it sent something: %v", w.Requests())
	}
}

func TestPushOfABranchAndAFolderWithDeletions(t *testing.T) {
	w := newWorld(t)
	w.model("me/bert")
	main := w.Head(hubtest.Model, "me/bert", "main")
	dir := write(t, t.TempDir(), map[string][]byte{"x.txt": []byte("x"), "config.json": []byte("new")})
	_, err := w.client.Push(w.ctx, "me/bert", dir, hub.PushOptions{Branch: "v2", PathInRepo: "onnx",
		Delete: []string{"*"}})
	if err != nil {
		t.Fatal(err)
	}
	files := w.Files(hubtest.Model, "me/bert", "v2")
	if string(files["onnx/config.json"]) != "new" || string(files["onnx/x.txt"]) != "x" ||
		files["config.json"] == nil || files["model.safetensors"] == nil {
		t.Errorf("the branch has %d files, onnx/config.json = %q", len(files), files["onnx/config.json"])
	}
	if w.Head(hubtest.Model, "me/bert", "main") != main {
		t.Error("main moved")
	}
	if _, err := w.client.Push(w.ctx, "me/bert", dir, hub.PushOptions{Branch: "v2",
		Delete: []string{"*"}}); err != nil {
		t.Fatal(err)
	}
	remote(t, w, "me/bert", "v2", map[string][]byte{"x.txt": []byte("x"), "config.json": []byte("new")})
}

func TestPushInParts(t *testing.T) {
	w := newWorld(t)
	w.PartSize = 100_000
	content := weights(t, 3, 1_000_000)
	dir := write(t, t.TempDir(), map[string][]byte{"model.safetensors": content})
	w.Inject(hubtest.Fault{Method: "PUT", CDN: true, Status: 500, Times: 3})
	w.Inject(hubtest.Fault{Method: "POST", Path: "/lfs-complete/", LoseAnswer: false, Status: 503})
	if _, err := w.client.Push(w.ctx, "me/bert", dir, hub.PushOptions{}); err != nil {
		t.Fatal(err)
	}
	remote(t, w, "me/bert", "main", map[string][]byte{"model.safetensors": content})
	if n := w.count("PUT", "/part/"); n != 11+3 {
		t.Errorf("%d parts were sent, want 11 and 3 again", n)
	}
	for _, r := range w.Requests() {
		if r.CDN && r.Authorized {
			t.Errorf("%v carried the token", r)
		}
	}
}

// TestPushOf300MBHoldsLittle pushes a large model in parts and checks how much memory client and
// server together allocate.
func TestPushOf300MBHoldsLittle(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 900 MB")
	}
	w := newWorld(t)
	w.PartSize = 32 << 20
	w.client.Workers = 3
	dir := t.TempDir()
	name := filepath.Join(dir, "model.safetensors")
	const size = 300_000_000
	zeros := func(out io.Writer) error { _, err := io.CopyN(out, zeroReader{}, size); return err }
	if err := safetensors.WriteFile(name, []safetensors.Entry{{Name: "w", DType: safetensors.U8, Shape: []int64{size},
		Data: zeros}}, nil); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := w.client.Push(w.ctx, "me/big", dir, hub.PushOptions{}); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 64<<20 {
		t.Errorf("the push of %d MB asked for %d MiB of memory in all", size/1_000_000, got>>20)
	}
	entries, err := w.client.List(w.ctx, "me/big", nil)
	info, statErr := os.Stat(name)
	if err != nil || statErr != nil || !slices.ContainsFunc(entries, func(e hub.Entry) bool {
		return e.Path == "model.safetensors" && e.Size == info.Size()
	}) {
		t.Errorf("List = %+v, %v", entries, err)
	}
	if n := w.count("PUT", "/part/"); n != 9 {
		t.Errorf("%d parts, want 9", n)
	}
}

type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestALostAnswerMakesNoSecondCommit(t *testing.T) {
	w := newWorld(t)
	w.model("me/bert")
	w.Inject(hubtest.Fault{Method: "POST", Path: "/commit/", LoseAnswer: true})
	changes := []hub.Change{{Path: "a.txt", Content: []byte("a")}, {Path: "onnx/", Delete: true},
		{Path: "empty.txt", Delete: true}}
	done, err := w.client.Commit(w.ctx, "me/bert", changes, hub.CommitOptions{Message: "once"})
	if err != nil {
		t.Fatal(err)
	}
	if log := w.Log(hubtest.Model, "me/bert", "main"); len(log) != 3 || log[0] != "once" ||
		done.ID != w.Head(hubtest.Model, "me/bert", "main") || done.Unchanged {
		t.Errorf("commits %q, Commit = %+v", log, done)
	}
	files := w.Files(hubtest.Model, "me/bert", "main")
	if files["onnx/config.json"] != nil || files["empty.txt"] != nil || string(files["a.txt"]) != "a" {
		t.Errorf("the files are %d: %q", len(files), files["a.txt"])
	}
	w.Inject(hubtest.Fault{Method: "POST", Path: "/commit/", Status: 503})
	if _, err := w.client.Commit(w.ctx, "me/bert", []hub.Change{{Path: "b.txt", Content: []byte("b")}},
		hub.CommitOptions{}); err != nil {
		t.Fatal(err)
	}
	if log := w.Log(hubtest.Model, "me/bert", "main"); len(log) != 4 || log[0] != hub.DefaultMessage {
		t.Errorf("after a 503, commits %q; want one more", log)
	}
}

func TestWhatAPushRefuses(t *testing.T) {
	w := newWorld(t)
	w.model("me/bert")
	guest, nobody, offline := *w.client, *w.client, *w.client
	guest.Token, nobody.Anonymous, offline.Offline = hub.NewSecret("hf_guest"), true, true
	good := map[string][]byte{"a": []byte("a")}
	torn := weights(t, 1, 1000)[:500]
	for _, c := range []struct {
		name   string
		client *hub.Client
		files  map[string][]byte
		o      hub.PushOptions
		want   error
		asked  bool // requests to the Hub are allowed
	}{
		{"a reader's token", &guest, good, hub.PushOptions{}, hub.ErrForbidden, true},
		{"no token", &nobody, good, hub.PushOptions{}, hub.ErrUnauthorized, false},
		{"offline mode", &offline, good, hub.PushOptions{}, hub.ErrOffline, false},
		{"a torn safetensors file", w.client, map[string][]byte{"m.safetensors": torn}, hub.PushOptions{}, errAny,
			false},
		{"a README whose front matter is no YAML", w.client, map[string][]byte{"README.md": []byte("---\na: [\n---\n")},
			hub.PushOptions{}, errAny, false},
		{"a card without a name", w.client, good, hub.PushOptions{Card: &hub.ModelCard{}}, errAny, false},
		{"a folder in the repository that leads out of it", w.client, good, hub.PushOptions{PathInRepo: "../x"},
			hub.ErrName, true},
		{"a branch that git does not allow", w.client, good, hub.PushOptions{Branch: "a b"}, hub.ErrName, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.ForgetRequests()
			_, err := c.client.Push(w.ctx, "me/bert", write(t, t.TempDir(), c.files), c.o)
			if err == nil || !errors.Is(c.want, errAny) && !errors.Is(err, c.want) {
				t.Errorf("Push = %v, want %v", err, c.want)
			}
			if n := len(w.Requests()); n > 0 && !c.asked {
				t.Errorf("the Hub was asked before: %v", w.Requests())
			}
			if log := w.Log(hubtest.Model, "me/bert", "main"); len(log) != 2 {
				t.Errorf("commits %q", log)
			}
		})
	}
	if _, err := w.client.Push(w.ctx, "me/bert", filepath.Join(t.TempDir(), "none"), hub.PushOptions{}); !errors.Is(err,
		os.ErrNotExist) {
		t.Errorf("Push of a folder that is not there: %v", err)
	}
}

func TestWhatACommitRefuses(t *testing.T) {
	w := newWorld(t)
	head, _ := w.model("me/bert")
	for _, c := range []struct {
		name    string
		changes []hub.Change
		o       hub.CommitOptions
		want    error
	}{
		{"the same file twice", []hub.Change{{Path: "a", Content: []byte("1")}, {Path: "a", Content: []byte("2")}},
			hub.CommitOptions{}, hub.ErrName},
		{"a deleted file with a content", []hub.Change{{Path: "a", Content: []byte("1"), Delete: true}},
			hub.CommitOptions{}, hub.ErrName},
		{"a folder with a content", []hub.Change{{Path: "a/", Content: []byte("1")}}, hub.CommitOptions{}, hub.ErrName},
		{"git's own folder", []hub.Change{{Path: ".git/config", Content: []byte("1")}}, hub.CommitOptions{},
			hub.ErrName},
		{"a branch that moved", []hub.Change{{Path: "a", Content: []byte("1")}},
			hub.CommitOptions{Parent: strings.Repeat("0", 40)}, hub.ErrConflict},
		{"a branch that is not there", []hub.Change{{Path: "a", Content: []byte("1")}}, hub.CommitOptions{Branch: "v3"},
			hub.ErrRevisionNotFound},
		{"a file to delete that is not there", []hub.Change{{Path: "none", Delete: true}}, hub.CommitOptions{},
			hub.ErrFileNotFound},
		{"a branch that is where it should be", []hub.Change{{Path: "a", Content: []byte("1")}},
			hub.CommitOptions{Parent: head}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := w.client.Commit(w.ctx, "me/bert", c.changes, c.o); !errors.Is(err, c.want) {
				t.Errorf("Commit = %v, want %v", err, c.want)
			}
		})
	}
}

func TestGitignoreIsHeeded(t *testing.T) {
	w := newWorld(t)
	dir := write(t, t.TempDir(), map[string][]byte{".gitignore": []byte("*.tmp\n"), "a.tmp": []byte("x"),
		"a.txt": []byte("x")})
	if _, err := w.client.Push(w.ctx, "me/bert", dir, hub.PushOptions{}); err != nil {
		t.Fatal(err)
	}
	remote(t, w, "me/bert", "main", map[string][]byte{".gitignore": []byte("*.tmp\n"), "a.txt": []byte("x")})
}

func TestAFileThatChangesDuringThePushIsNotCommitted(t *testing.T) {
	w := newWorld(t)
	dir := write(t, t.TempDir(), map[string][]byte{"config.json": []byte("{}"), "model.safetensors": weights(t, 1,
		1<<20)})
	_, err := w.client.Push(w.ctx, "me/bert", dir, hub.PushOptions{Progress: func(p hub.Progress) {
		if p.File == "model.safetensors" {
			write(t, dir, map[string][]byte{"config.json": []byte(`{"changed": true}`)})
		}
	}})
	if err == nil || !strings.Contains(err.Error(), "changed while it was being pushed") {
		t.Errorf("Push = %v, want that the file changed", err)
	}
	if log := w.Log(hubtest.Model, "me/bert", "main"); len(log) != 1 {
		t.Errorf("commits %q", log)
	}
}

func TestTwoFilesOfTheSameContentAreSentOnce(t *testing.T) {
	w := newWorld(t)
	files := map[string][]byte{"a.bin": noise(1, 1000), "b.bin": noise(1, 1000)}
	if _, err := w.client.Push(w.ctx, "me/bert", write(t, t.TempDir(), files), hub.PushOptions{}); err != nil {
		t.Fatal(err)
	}
	remote(t, w, "me/bert", "main", files)
	if n := w.count("PUT", ""); n != 1 {
		t.Errorf("%d uploads, want 1", n)
	}
}

func TestANameWithoutNamespaceIsTheUsers(t *testing.T) {
	w := newWorld(t)
	done, err := w.client.Push(w.ctx, "bert", write(t, t.TempDir(), map[string][]byte{"a": []byte("a")}),
		hub.PushOptions{})
	if err != nil || done.RepoID != "me/bert" {
		t.Fatalf("Push = %+v, %v; want it in me/bert", done, err)
	}
	remote(t, w, "me/bert", "main", map[string][]byte{"a": []byte("a")})
}

// killedPush is the variable that makes this test binary push and then be killed.
const killedPush = "GOTRAINER_TEST_KILLED_PUSH"

func TestAKilledPushIsCompletedByTheNext(t *testing.T) {
	if arguments := os.Getenv(killedPush); arguments != "" {
		endpoint, dir, _ := strings.Cut(arguments, "|")
		client := hub.Client{Endpoint: endpoint, Token: hub.NewSecret(token), CacheDir: t.TempDir(), Workers: 1}
		_, err := client.Push(t.Context(), "me/bert", dir, hub.PushOptions{})
		t.Fatalf("the push came to its end: %v", err)
	}
	w := newWorld(t)
	files := map[string][]byte{"a.safetensors": weights(t, 1, 1<<20), "b.safetensors": weights(t, 2, 1<<20),
		"config.json": []byte("{}")}
	dir := write(t, t.TempDir(), files)
	hang := hubtest.Fault{Method: "PUT", CDN: true, Skip: 1, Delay: time.Hour}
	w.Inject(hang)
	child := exec.Command(os.Args[0], "-test.run=^TestAKilledPushIsCompletedByTheNext$")
	// a killed process does not clean up its temporary folder
	child.Env = append(os.Environ(), killedPush+"="+w.URL+"|"+dir, "TMPDIR="+t.TempDir())
	var output bytes.Buffer
	child.Stdout, child.Stderr = &output, &output
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	for w.count("PUT", "") < 2 { // the second object hangs
		select {
		case err := <-ended:
			t.Fatalf("the push never came to the second object: %v\n%s", err, output.String())
		case <-time.After(5 * time.Millisecond):
		}
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-ended
	if strings.Contains(output.String(), "came to its end") || strings.Contains(output.String(), "CANARY") {
		t.Fatalf("the child says:\n%s", output.String())
	}
	if log := w.Log(hubtest.Model, "me/bert", "main"); len(log) != 1 {
		t.Fatalf("a killed push left the commits %q", log)
	}
	w.ForgetRequests()
	if _, err := w.client.Push(w.ctx, "me/bert", dir, hub.PushOptions{}); err != nil {
		t.Fatal(err)
	}
	remote(t, w, "me/bert", "main", files)
	if n := w.count("PUT", ""); n != 1 {
		t.Errorf("%d objects were sent, want 1: the other had arrived", n)
	}
}

func TestCancellingStopsAPush(t *testing.T) {
	w := newWorld(t)
	w.Inject(hubtest.Fault{Method: "PUT", CDN: true, Delay: time.Hour, Times: -1})
	ctx, cancel := context.WithCancel(w.ctx)
	dir := write(t, t.TempDir(), map[string][]byte{"a.bin": noise(1, 1000)})
	_, err := w.client.Push(ctx, "me/bert", dir, hub.PushOptions{Progress: func(hub.Progress) { cancel() }})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Push = %v, want context.Canceled", err)
	}
}

func TestReposBranchesAndTags(t *testing.T) {
	w := newWorld(t)
	c := w.client
	steps := []struct {
		name string
		do   func() error
		want error
	}{
		{"create", func() error { return c.CreateRepo(w.ctx, "me/x", nil) }, nil},
		{"create again", func() error { return c.CreateRepo(w.ctx, "me/x", nil) }, hub.ErrConflict},
		{"create again with ExistOK", func() error {
			return c.CreateRepo(w.ctx, "me/x", &hub.CreateOptions{ExistOK: true})
		}, nil},
		{"create in another's namespace", func() error { return c.CreateRepo(w.ctx, "you/x", nil) }, hub.ErrForbidden},
		{"create in an organization", func() error {
			return c.CreateRepo(w.ctx, "org/x", &hub.CreateOptions{Type: hub.Dataset})
		}, nil},
		{"tag", func() error { return c.CreateTag(w.ctx, "me/x", "v1", "", nil) }, nil},
		{"tag again", func() error { return c.CreateTag(w.ctx, "me/x", "v1", "", nil) }, hub.ErrConflict},
		{"tag what is not there", func() error {
			return c.CreateTag(w.ctx, "me/x", "v2", "", &hub.RepoOptions{Revision: "no"})
		}, hub.ErrRevisionNotFound},
		{"branch", func() error {
			return c.CreateBranch(w.ctx, "me/x", "dev/a", &hub.RepoOptions{Revision: "v1"})
		}, nil},
		{"refs", func() error {
			refs, err := c.Refs(w.ctx, "me/x", nil)
			if err == nil && (len(refs.Branches) != 2 || refs.Tags["v1"] == "" ||
				refs.Branches["dev/a"] != refs.Tags["v1"]) {
				err = errors.New("wrong refs")
			}
			return err
		}, nil},
		{"fetch a tag", func() error {
			_, err := c.Fetch(w.ctx, "me/x", &hub.FetchOptions{Revision: "v1"})
			return err
		}, nil},
		{"fetch a branch with a slash", func() error {
			_, err := c.Fetch(w.ctx, "me/x", &hub.FetchOptions{Revision: "dev/a"})
			return err
		}, nil},
		{"delete the tag", func() error { return c.DeleteTag(w.ctx, "me/x", "v1", nil) }, nil},
		{"delete it again", func() error { return c.DeleteTag(w.ctx, "me/x", "v1", nil) }, hub.ErrRevisionNotFound},
		{"delete the branch", func() error { return c.DeleteBranch(w.ctx, "me/x", "dev/a", nil) }, nil},
		{"delete", func() error { return c.DeleteRepo(w.ctx, "me/x", nil) }, nil},
		{"info of what is gone", func() error { _, err := c.Info(w.ctx, "me/x", nil); return err },
			hub.ErrRepoNotFound},
		{"a space needs an SDK", func() error {
			return c.CreateRepo(w.ctx, "me/s", &hub.CreateOptions{Type: hub.Space})
		}, hub.ErrName},
	}
	for _, s := range steps {
		if err := s.do(); !errors.Is(err, s.want) {
			t.Errorf("%s: %v, want %v", s.name, err, s.want)
		}
	}
}

func TestAFolderThatIsALinkIsPushed(t *testing.T) {
	w := newWorld(t)
	files := map[string][]byte{"config.json": []byte("{}"), "a/vocab.txt": []byte("a\n")}
	link := filepath.Join(t.TempDir(), "latest")
	if err := os.Symlink(write(t, t.TempDir(), files), link); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := w.client.Push(w.ctx, "me/bert", link, hub.PushOptions{Delete: []string{"*"}}); err != nil {
			t.Fatal(err)
		}
		remote(t, w, "me/bert", "main", files)
	}
	for _, o := range []hub.PushOptions{{Delete: []string{"*"}, Allow: []string{"*.bin"}}, {Ignore: []string{"*"}}} {
		if _, err := w.client.Push(w.ctx, "me/bert", link, o); err == nil || !strings.Contains(err.Error(), "no file") {
			t.Errorf("a push of nothing: %v", err)
		}
		remote(t, w, "me/bert", "main", files)
	}
}
