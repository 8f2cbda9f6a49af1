package hub_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/hub"
	"github.com/gotrainer/gotrainer/hub/hubtest"
)

func TestFetchLaysOutTheCacheAsPythonDoes(t *testing.T) {
	w := newWorld(t)
	commit, files := w.model("me/bert")
	repo, err := w.client.Fetch(w.ctx, "me/bert", nil)
	if err != nil {
		t.Fatal(err)
	}
	same(t, repo.Dir, files)
	if want := filepath.Join(w.client.CacheDir, "models--me--bert", "snapshots", commit); repo.Dir != want ||
		repo.Commit != commit || repo.Offline != nil {
		t.Errorf("Fetch = %+v, want the folder %s", repo, want)
	}
	if want := []string{".gitattributes", "config.json", "empty.txt", "model.safetensors",
		"onnx/config.json"}; !slices.Equal(repo.Files, want) {
		t.Errorf("Files = %q, want %q", repo.Files, want)
	}
	if ref, _ := os.ReadFile(filepath.Join(w.client.CacheDir, "models--me--bert", "refs",
		"main")); string(ref) != commit {
		t.Errorf("refs/main = %q, want %s without a line end", ref, commit)
	}
	link, err := os.Readlink(repo.Path("onnx/config.json"))
	// the git blob id of {}
	if want := "../../../blobs/9e26dfeeb6e641a33dae4961196235bdb965b21b"; err != nil || link != want {
		t.Errorf("onnx/config.json links to %q, %v; want %q", link, err, want)
	}
	for _, name := range tree(t, w.client.CacheDir) {
		if strings.Contains(name, "incomplete") || strings.HasSuffix(name, ".tmp") {
			t.Errorf("%s was left over", name)
		}
	}
}

func TestFetchAgainAsksOnlyWhereTheBranchIs(t *testing.T) {
	w := newWorld(t)
	commit, _ := w.model("me/bert")
	if _, err := w.client.Fetch(w.ctx, "me/bert", nil); err != nil {
		t.Fatal(err)
	}
	w.ForgetRequests()
	if _, err := w.client.Fetch(w.ctx, "me/bert", nil); err != nil || len(w.Requests()) != 1 {
		t.Errorf("the second Fetch: %v, requests %v; want one", err, w.Requests())
	}
	w.ForgetRequests()
	if _, err := w.client.Fetch(w.ctx, "me/bert", &hub.FetchOptions{Revision: commit}); err != nil ||
		len(w.Requests()) != 0 {
		t.Errorf("Fetch of a known commit: %v, requests %v; want none", err, w.Requests())
	}
	next := w.Commit(hubtest.Model, "me/bert", "main", map[string][]byte{"config.json": []byte(`{"new": 1}`)})
	w.ForgetRequests()
	repo, err := w.client.Fetch(w.ctx, "me/bert", nil)
	if err != nil || repo.Commit != next {
		t.Fatalf("after the branch moved: %+v, %v; want commit %s", repo, err, next)
	}
	if n := w.count("GET", "/resolve/"); n != 1 {
		t.Errorf("%d files were fetched after one had changed: %v", n, w.Requests())
	}
	same(t, repo.Dir, w.Files(hubtest.Model, "me/bert", "main"))
}

func TestFetchTakesWhatThePatternsLetThrough(t *testing.T) {
	for _, c := range []struct {
		name          string
		allow, ignore []string
		want          []string
	}{
		{"a star crosses slashes", []string{"*.json"}, nil, []string{"config.json", "onnx/config.json"}},
		{"a folder means all below it", []string{"onnx/"}, nil, []string{"onnx/config.json"}},
		{"ignore wins", []string{"*.json"}, []string{"onnx/*"}, []string{"config.json"}},
		{"nothing may match", []string{"no*"}, nil, []string{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.model("me/bert")
			repo, err := w.client.Fetch(w.ctx, "me/bert", &hub.FetchOptions{Allow: c.allow, Ignore: c.ignore})
			if err != nil || !cmp.Equal(repo.Files, c.want) {
				t.Fatalf("Files = %v, %v; want %q", repo, err, c.want)
			}
		})
	}
}

func TestABrokenDownloadGoesOnWhereItStopped(t *testing.T) {
	w := newWorld(t)
	_, files := w.model("me/bert")
	w.Inject(hubtest.Fault{CDN: true, DropAfter: 1 << 20, Times: 2})
	repo, err := w.client.Fetch(w.ctx, "me/bert", nil)
	if err != nil {
		t.Fatal(err)
	}
	same(t, repo.Dir, files)
	if got, want := w.ranges("/objects/"), []string{"", "bytes=1048576-", "bytes=2097152-"}; !slices.Equal(got, want) {
		t.Errorf("ranges asked for: %q, want %q", got, want)
	}
}

func TestAnInterruptedDownloadGoesOnInTheNextProcess(t *testing.T) {
	w := newWorld(t)
	_, files := w.model("me/bert")
	w.client.Retries = -1
	w.Inject(hubtest.Fault{CDN: true, DropAfter: 1<<20 + 5})
	if _, err := w.client.Fetch(w.ctx, "me/bert", nil); !errors.Is(err, hub.ErrUnreachable) {
		t.Fatalf("Fetch over a broken connection: %v, want ErrUnreachable", err)
	}
	w.ForgetRequests()
	repo, err := (&hub.Client{Endpoint: w.URL, CacheDir: w.client.CacheDir}).Fetch(w.ctx, "me/bert", nil)
	if err != nil {
		t.Fatal(err)
	}
	same(t, repo.Dir, files)
	if got, want := w.ranges("/objects/"), []string{"bytes=1048581-"}; !slices.Equal(got, want) {
		t.Errorf("ranges asked for: %q, want %q", got, want)
	}
}

func TestCancellingStopsAFetchAndKeepsWhatCame(t *testing.T) {
	w := newWorld(t)
	w.model("me/bert")
	// without the fault a fast response could be complete before it is canceled
	w.Inject(hubtest.Fault{CDN: true, DropAfter: 1 << 20, Times: -1})
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(w.ctx)
	_, err := w.client.Fetch(ctx, "me/bert", &hub.FetchOptions{Allow: []string{"*.safetensors"},
		Progress: func(p hub.Progress) {
			if p.Done > 0 {
				cancel(stop)
			}
		}})
	if !errors.Is(err, stop) {
		t.Fatalf("Fetch = %v, want the cause of the cancelling", err)
	}
	partial, err := filepath.Glob(filepath.Join(w.client.CacheDir, "models--me--bert", "blobs", "*.incomplete"))
	if err != nil || len(partial) != 1 {
		t.Fatalf("partial files %q, %v; want one", partial, err)
	}
	if info, err := os.Stat(partial[0]); err != nil || info.Size() == 0 {
		t.Errorf("the partial file: %v, %v; want what came", info, err)
	}
}

func TestWrongContentIsRefused(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault hubtest.Fault
	}{
		{"a flipped bit of a large file", hubtest.Fault{CDN: true, Corrupt: true, Times: -1}},
		{"a flipped bit of a small file", hubtest.Fault{Path: "/resolve/", Corrupt: true, Times: -1}},
		{"more bytes than the file has", hubtest.Fault{CDN: true, Times: -1, Instead: func(w http.ResponseWriter,
			_ *http.Request) {
			_, _ = w.Write(make([]byte, 8<<20))
		}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.model("me/bert")
			w.Inject(c.fault)
			if _, err := w.client.Fetch(w.ctx, "me/bert", nil); !errors.Is(err, hub.ErrChecksum) {
				t.Fatalf("Fetch = %v, want ErrChecksum", err)
			}
			if _, err := os.Stat(filepath.Join(w.client.CacheDir, "models--me--bert", "refs", "main")); err != nil {
				t.Errorf("the ref: %v", err)
			}
			w.ClearFaults()
			repo, err := w.client.Fetch(w.ctx, "me/bert", nil)
			if err != nil {
				t.Fatalf("once the server is honest: %v", err)
			}
			same(t, repo.Dir, w.Files(hubtest.Model, "me/bert", "main"))
		})
	}
}

func TestADamagedPartIsFetchedFromItsStart(t *testing.T) {
	for _, c := range []struct {
		name string
		part []byte
	}{
		{"a part of something else", noise(9, 1<<20)},
		{"a part of the full length", noise(9, 3<<20+17)},
		{"a part that is too long", noise(9, 4<<20)},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			_, files := w.model("me/bert")
			entries, err := w.client.List(w.ctx, "me/bert", nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				if e.SHA256 != "" {
					write(t, w.client.CacheDir, map[string][]byte{"models--me--bert/blobs/" + e.SHA256 +
						".incomplete": c.part})
				}
			}
			repo, err := w.client.Fetch(w.ctx, "me/bert", nil)
			if err != nil {
				t.Fatal(err)
			}
			same(t, repo.Dir, files)
		})
	}
}

func TestAServerWithoutRangesIsServedFromTheStart(t *testing.T) {
	w := newWorld(t)
	_, files := w.model("me/bert")
	w.Inject(hubtest.Fault{CDN: true, DropAfter: 1 << 20})
	w.Inject(hubtest.Fault{CDN: true, IgnoreRange: true})
	var last hub.Progress
	repo, err := w.client.Fetch(w.ctx, "me/bert", &hub.FetchOptions{Progress: func(p hub.Progress) { last = p }})
	if err != nil {
		t.Fatal(err)
	}
	same(t, repo.Dir, files)
	if last.AllDone != last.AllTotal || last.Files != 5 || last.AllFiles != 5 {
		t.Errorf("the last report is %+v; want all of 5 files, no byte counted twice", last)
	}
}

func TestRetries(t *testing.T) {
	for _, c := range []struct {
		name   string
		fault  hubtest.Fault
		pauses []time.Duration
		want   error
	}{
		{"5xx with growing pauses", hubtest.Fault{Status: 503, Times: 3}, []time.Duration{1e9, 2e9, 4e9}, nil},
		{"429 after what Retry-After asks for, and a second", hubtest.Fault{Status: 429,
			Header: hubtest.RetryAfter(30)}, []time.Duration{31e9}, nil},
		{"429 after the rest of the rate limit's window", hubtest.Fault{Status: 429,
			Header: http.Header{"RateLimit": {`"api";r=0;t=55`}}}, []time.Duration{56e9}, nil},
		{"no further than Retries", hubtest.Fault{Status: 500, Times: -1}, []time.Duration{1e9, 2e9, 4e9}, errAny},
		{"not when it must wait for hours", hubtest.Fault{Status: 429, Header: hubtest.RetryAfter(7200)}, nil,
			hub.ErrRateLimited},
		{"not after 400", hubtest.Fault{Status: 400}, nil, errAny},
		{"not after 403", hubtest.Fault{Status: 403}, nil, hub.ErrForbidden},
		{"a listing that breaks off", hubtest.Fault{Path: "/tree/", DropAfter: 10}, []time.Duration{1e9}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.model("me/bert")
			w.Inject(c.fault)
			_, err := w.client.Fetch(w.ctx, "me/bert", nil)
			if (err == nil) != (c.want == nil) || c.want != nil && !errors.Is(c.want, errAny) &&
				!errors.Is(err, c.want) {
				t.Errorf("Fetch = %v, want %v", err, c.want)
			}
			if !slices.Equal(w.pauses, c.pauses) {
				t.Errorf("pauses %v, want %v", w.pauses, c.pauses)
			}
		})
	}
}

// errAny stands for any error.
var errAny = errors.New("any error")

func TestASilentConnectionIsGivenUp(t *testing.T) {
	w := newWorld(t)
	_, files := w.model("me/bert")
	w.client.Timeout, w.client.Retries = 50*time.Millisecond, 1000 // on a busy machine other requests may time out too
	w.Inject(hubtest.Fault{CDN: true, Delay: time.Hour})
	repo, err := w.client.Fetch(w.ctx, "me/bert", nil)
	if err != nil {
		t.Fatal(err)
	}
	same(t, repo.Dir, files)
}

func TestOffline(t *testing.T) {
	w := newWorld(t)
	commit, files := w.model("me/bert")
	if _, err := w.client.Fetch(w.ctx, "me/bert", &hub.FetchOptions{Allow: []string{"*.json"}}); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HF_HUB_OFFLINE", "1")
	w.ForgetRequests()
	for _, revision := range []string{"", commit} {
		repo, err := w.client.Fetch(w.ctx, "me/bert", &hub.FetchOptions{Revision: revision, Allow: []string{"*.json"}})
		if err != nil || !errors.Is(repo.Offline, hub.ErrOffline) {
			t.Fatalf("offline: %+v, %v; want the cached files and why", repo, err)
		}
		same(t, repo.Dir, map[string][]byte{"config.json": files["config.json"]})
		_, err = w.client.Fetch(w.ctx, "me/bert", &hub.FetchOptions{Revision: revision})
		if !errors.Is(err, hub.ErrNotCached) || !strings.Contains(err.Error(), "model.safetensors") {
			t.Errorf("files that were never fetched: %v, want ErrNotCached and their names", err)
		}
	}
	if _, err := w.client.File(w.ctx, "me/bert", "config.json", nil); err != nil {
		t.Errorf("File of the cache: %v", err)
	}
	if _, err := w.client.File(w.ctx, "me/bert", "model.safetensors", nil); !errors.Is(err, hub.ErrNotCached) ||
		!errors.Is(err, hub.ErrOffline) {
		t.Errorf("File that was never fetched: %v, want ErrNotCached and ErrOffline", err)
	}
	if _, err := w.client.Fetch(w.ctx, "me/other", nil); !errors.Is(err, hub.ErrNotCached) {
		t.Errorf("a repository that was never fetched: %v, want ErrNotCached", err)
	}
	if n := len(w.Requests()); n != 0 {
		t.Errorf("offline mode made requests: %v", w.Requests())
	}
}

func TestAHubThatIsDownLeavesTheCache(t *testing.T) {
	w := newWorld(t)
	w.model("me/bert")
	if _, err := w.client.Fetch(w.ctx, "me/bert", nil); err != nil {
		t.Fatal(err)
	}
	w.Inject(hubtest.Fault{Status: 503, Times: -1})
	repo, err := w.client.Fetch(w.ctx, "me/bert", nil)
	var answer *hub.Error
	if err != nil || !errors.As(repo.Offline, &answer) || answer.Status != 503 {
		t.Errorf("with a Hub that answers 503: %+v, %v; want the cached state and why", repo, err)
	}
	if len(w.pauses) != 0 {
		t.Errorf("it waited %v though the cache has all", w.pauses)
	}
	w.Close()
	if repo, err := w.client.Fetch(w.ctx, "me/bert", nil); err != nil || !errors.Is(repo.Offline, hub.ErrUnreachable) {
		t.Errorf("without a Hub: %+v, %v; want the cached state and ErrUnreachable", repo, err)
	}
}

func TestRefusals(t *testing.T) {
	w := newWorld(t)
	w.model("me/bert")
	w.CreateRepo(hubtest.Model, "me/private", hubtest.Private)
	w.CreateRepo(hubtest.Model, "me/gated", hubtest.Public)
	w.Commit(hubtest.Model, "me/gated", "main", map[string][]byte{"a": []byte("a")})
	w.Gate(hubtest.Model, "me/gated")
	anonymous, guest, wrong := *w.client, *w.client, *w.client
	anonymous.Anonymous, guest.Token, wrong.Token = true, hub.NewSecret("hf_guest"), hub.NewSecret("hf_wrong")
	for _, c := range []struct {
		name   string
		client *hub.Client
		repo   string
		o      hub.FetchOptions
		want   error
	}{
		{"the owner may read a private repository", w.client, "me/private", hub.FetchOptions{}, nil},
		{"a stranger may not", &guest, "me/private", hub.FetchOptions{}, hub.ErrRepoNotFound},
		{"nor may nobody", &anonymous, "me/private", hub.FetchOptions{}, hub.ErrRepoNotFound},
		{"a wrong token", &wrong, "me/bert", hub.FetchOptions{}, hub.ErrUnauthorized},
		{"a gated repository", &guest, "me/gated", hub.FetchOptions{}, hub.ErrGated},
		{"no such repository", w.client, "me/nothing", hub.FetchOptions{}, hub.ErrRepoNotFound},
		{"no such revision", w.client, "me/bert", hub.FetchOptions{Revision: "v9"}, hub.ErrRevisionNotFound},
		{"no such type", w.client, "me/bert", hub.FetchOptions{Type: hub.Dataset}, hub.ErrRepoNotFound},
		{"a name that leaves the cache", w.client, "../bert", hub.FetchOptions{}, hub.ErrName},
		{"a revision that leaves the cache", w.client, "me/bert", hub.FetchOptions{Revision: "../../x"}, hub.ErrName},
		{"a type that is none", w.client, "me/bert", hub.FetchOptions{Type: "models"}, hub.ErrName},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := *c.client
			client.CacheDir = t.TempDir()
			if _, err := client.Fetch(w.ctx, c.repo, &c.o); !errors.Is(err, c.want) {
				t.Errorf("Fetch = %v, want %v", err, c.want)
			}
		})
	}
}

func TestNamesThatLeaveTheFolderAreRefused(t *testing.T) {
	for _, name := range []string{
		"../evil", "a/../../evil", "/etc/passwd", `..\evil`, `a\..\..\evil`, `C:\evil`, "C:/evil", "D:evil", "a/D:evil",
		`\\host\share\evil`, "//host/share",
		"a//b", "./a", "a/.", "", "nul\x00", "line\nbreak", "a/... /b", strings.Repeat("a", 5000),
	} {
		t.Run(fmt.Sprintf("%.20q", name), func(t *testing.T) {
			w := newWorld(t)
			w.model("me/bert")
			before := tree(t, filepath.Dir(w.client.CacheDir))
			w.Inject(hubtest.Fault{Path: "/tree/", Times: -1, Instead: func(out http.ResponseWriter, _ *http.Request) {
				fmt.Fprintf(out,
					`[{"type": "file", "path": %q, "size": 2, "oid": "9e26dfeeb6e641a33dae4961196235bdb965b21b"}]`,
					name)
			}})
			if _, err := w.client.Fetch(w.ctx, "me/bert", nil); !errors.Is(err, hub.ErrName) &&
				!strings.Contains(err.Error(), "JSON") {
				t.Errorf("Fetch of %.50q = %v, want ErrName", name, err)
			}
			if after := tree(t, filepath.Dir(w.client.CacheDir)); !slices.Equal(before, after) {
				t.Errorf("files appeared: %q", after)
			}
			if err := hub.CheckName(name); !errors.Is(err, hub.ErrName) {
				t.Errorf("checkName(%.50q) = %v, want ErrName", name, err)
			}
		})
	}
	for _, name := range []string{"a", "a/b.c", ".gitattributes", "..a", "a..", "a b", "ü/漢字", "ab:c",
		"model-00001-of-00002.safetensors"} {
		if err := hub.CheckName(name); err != nil {
			t.Errorf("checkName(%q) = %v, want no error", name, err)
		}
	}
}

func TestALinkInTheCacheDoesNotLeadOutOfIt(t *testing.T) {
	w := newWorld(t)
	w.model("me/bert")
	outside := t.TempDir()
	if err := os.MkdirAll(filepath.Join(w.client.CacheDir, "models--me--bert"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(w.client.CacheDir, "models--me--bert", "blobs")); err != nil {
		t.Skip("no symbolic links here: ", err)
	}
	if _, err := w.client.Fetch(w.ctx, "me/bert", nil); err == nil {
		t.Error("Fetch wrote through a link that leaves the cache")
	}
	if left := tree(t, outside); len(left) != 0 {
		t.Errorf("files outside the cache: %q", left)
	}
}

func TestTheTokenGoesToTheEndpointOnly(t *testing.T) {
	w := newWorld(t)
	w.model("me/bert")
	if _, err := w.client.Fetch(w.ctx, "me/bert", nil); err != nil {
		t.Fatal(err)
	}
	hubs, cdns := 0, 0
	for _, r := range w.Requests() {
		if r.CDN && r.Authorized || !r.CDN && !r.Authorized {
			t.Errorf("%v: authorized %v", r, r.Authorized)
		}
		if r.CDN {
			cdns++
		} else {
			hubs++
		}
	}
	if hubs == 0 || cdns == 0 {
		t.Errorf("%d requests to the Hub, %d to the other server: this test sees nothing", hubs, cdns)
	}
}

func TestWithoutLinksTheFilesThemselvesAreInTheSnapshot(t *testing.T) {
	w := newWorld(t)
	_, files := w.model("me/bert")
	t.Setenv("HF_HUB_DISABLE_SYMLINKS", "1")
	repo, err := w.client.Fetch(w.ctx, "me/bert", nil)
	if err != nil {
		t.Fatal(err)
	}
	same(t, repo.Dir, files)
	for _, name := range repo.Files {
		if info, err := os.Lstat(repo.Path(name)); err != nil || !info.Mode().IsRegular() {
			t.Errorf("%s: %v, %v; want a file", name, info, err)
		}
	}
	w.ForgetRequests()
	if _, err := w.client.Fetch(w.ctx, "me/bert", nil); err != nil || w.count("GET", "/resolve/") != 0 {
		t.Errorf("the second Fetch: %v, %v", err, w.Requests())
	}
}

func TestManyFetchesAtOnceFetchOnce(t *testing.T) {
	w := newWorld(t)
	_, files := w.model("me/bert")
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			repo, err := w.client.Fetch(w.ctx, "me/bert", nil)
			if err != nil {
				t.Error(err)
				return
			}
			same(t, repo.Dir, files)
		})
	}
	group.Wait()
	if n := w.count("GET", "/objects/"); n != 1 {
		t.Errorf("the large file was fetched %d times: %v", n, w.Requests())
	}
}

func TestAListingOfManyPages(t *testing.T) {
	w := newWorld(t)
	w.PageSize = 3
	w.CreateRepo(hubtest.Dataset, "org/data", hubtest.Public)
	files := map[string][]byte{}
	for i := range 10 {
		files[fmt.Sprintf("part %d/file#%d?.txt", i%2, i)] = []byte{byte(i)}
	}
	w.Commit(hubtest.Dataset, "org/data", "main", files)
	repo, err := w.client.Fetch(w.ctx, "org/data", &hub.FetchOptions{Type: hub.Dataset})
	if err != nil {
		t.Fatal(err)
	}
	same(t, repo.Dir, files)
	if n := w.count("GET", "/tree/"); n != 5 {
		t.Errorf("%d pages, want 5: 11 files and 2 folders by 3", n)
	}
}

func TestForceFetchesAgain(t *testing.T) {
	w := newWorld(t)
	_, files := w.model("me/bert")
	repo, err := w.client.Fetch(w.ctx, "me/bert", nil)
	if err != nil {
		t.Fatal(err)
	}
	blob, err := filepath.EvalSymlinks(repo.Path("config.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(blob, []byte("damaged"), 0o666); err != nil {
		t.Fatal(err)
	}
	if repo, err = w.client.Fetch(w.ctx, "me/bert", &hub.FetchOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	same(t, repo.Dir, files)
}

// A snapshot may contain a file instead of a link if it was made, or copied from, where links are
// unavailable.
func TestForceReplacesADamagedFileThatIsNoLink(t *testing.T) {
	w := newWorld(t)
	_, files := w.model("me/bert")
	repo, err := w.client.Fetch(w.ctx, "me/bert", nil)
	require.NoError(t, err)
	require.NoError(t, os.Remove(repo.Path("config.json")))
	require.NoError(t, os.WriteFile(repo.Path("config.json"), []byte("damaged"), 0o666))
	repo, err = w.client.Fetch(w.ctx, "me/bert", &hub.FetchOptions{Force: true})
	require.NoError(t, err)
	same(t, repo.Dir, files)
}

func TestFile(t *testing.T) {
	w := newWorld(t)
	commit, files := w.model("me/bert")
	for range 2 {
		path, err := w.client.File(w.ctx, "me/bert", "model.safetensors", nil)
		if err != nil {
			t.Fatal(err)
		}
		same(t, filepath.Dir(path), map[string][]byte{"model.safetensors": files["model.safetensors"]})
	}
	if heads, gets := w.count("HEAD", "/resolve/"), w.count("GET", "/objects/"); heads != 2 || gets != 1 {
		t.Errorf("%d times asked, %d times fetched; want 2 and 1: %v", heads, gets, w.Requests())
	}
	if blobs, _ := filepath.Glob(filepath.Join(w.client.CacheDir, "*", "blobs", "*")); len(blobs) != 1 ||
		len(filepath.Base(blobs[0])) != 64 {
		t.Errorf("blobs %q; want one, named by its SHA-256 and not by the other server's etag", blobs)
	}
	if _, err := w.client.File(w.ctx, "me/bert", "no.json", nil); !errors.Is(err, hub.ErrFileNotFound) {
		t.Errorf("a file that is not there: %v, want ErrFileNotFound", err)
	}
	if _, err := os.Stat(filepath.Join(w.client.CacheDir, "models--me--bert", ".no_exist", commit,
		"no.json")); err != nil {
		t.Errorf("that it is not there was not noted: %v", err)
	}
	w.client.Offline = true
	if _, err := w.client.File(w.ctx, "me/bert", "no.json", nil); !errors.Is(err, hub.ErrFileNotFound) {
		t.Errorf("offline, a file that is known not to be there: %v, want ErrFileNotFound", err)
	}
	if _, err := w.client.File(w.ctx, "me/bert", "../x", nil); !errors.Is(err, hub.ErrName) {
		t.Errorf("File(../x) = %v, want ErrName", err)
	}
}

func TestFileFollowsABranchThatMoves(t *testing.T) {
	w := newWorld(t)
	w.model("me/bert")
	if _, err := w.client.File(w.ctx, "me/bert", "config.json", nil); err != nil {
		t.Fatal(err)
	}
	w.Commit(hubtest.Model, "me/bert", "main", map[string][]byte{"config.json": []byte("new")})
	path, err := w.client.File(w.ctx, "me/bert", "config.json", nil)
	if err != nil {
		t.Fatal(err)
	}
	same(t, filepath.Dir(path), map[string][]byte{"config.json": []byte("new")})
}

func TestAWrongEtagIsRefused(t *testing.T) {
	for _, etag := range []string{`"` + strings.Repeat("ab", 32) + `"`, `"../../evil"`, `""`} {
		w := newWorld(t)
		w.model("me/bert")
		w.Inject(hubtest.Fault{Method: "HEAD", Header: http.Header{"X-Linked-Etag": {etag}}})
		if path, err := w.client.File(w.ctx, "me/bert", "config.json", nil); !errors.Is(err, hub.ErrChecksum) &&
			!errors.Is(err, hub.ErrName) && etag != `""` {
			t.Errorf("with the etag %s: %q, %v; want it refused", etag, path, err)
		}
	}
}

// TestAListingWithoutEndIsGivenUp covers a listing whose every page links to another one.
func TestAListingWithoutEndIsGivenUp(t *testing.T) {
	page := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page++
		w.Header().Set("Link", fmt.Sprintf(`<%s?cursor=%d>; rel="next"`, r.URL.Path, page))
		fmt.Fprintf(w, `[{"type": "file", "path": "%d", "oid": "%040d", "size": 1}]`, page, page)
	}))
	defer server.Close()
	client := hub.Client{Endpoint: server.URL, CacheDir: t.TempDir()}
	if files, err := client.List(t.Context(), "me/bert", nil); err == nil || !strings.Contains(err.Error(),
		"me/bert has more than 4096 pages, 4096 files so far") {
		t.Errorf("List = %d files, %v; want an error", len(files), err)
	}
}
