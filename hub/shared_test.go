package hub_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/hub"
	"github.com/gotrainer/gotrainer/hub/hubtest"
)

// Some servers echo the request. The token must not get into an error, which may be logged.
func TestATokenThatTheServerRepeatsIsInNoError(t *testing.T) {
	w := newWorld(t)
	w.model("me/bert")
	w.client.Retries = 1
	for name, answer := range map[string]func(http.ResponseWriter, *http.Request){
		"the text of an error": func(rw http.ResponseWriter, r *http.Request) {
			rw.WriteHeader(500)
			fmt.Fprintf(rw, `{"error":"you sent %s"}`, r.Header.Get("Authorization"))
		},
		"the end of a long text": func(rw http.ResponseWriter, r *http.Request) {
			rw.WriteHeader(404)
			fmt.Fprint(rw, strings.Repeat("x", 490), r.Header.Get("Authorization"))
		},
		"a header": func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("X-Error-Message", r.Header.Get("Authorization"))
			rw.Header().Set("X-Request-Id", r.Header.Get("Authorization"))
			rw.WriteHeader(400)
		},
		"the address of a redirect": func(rw http.ResponseWriter, r *http.Request) {
			if !strings.Contains(r.URL.Path, token) {
				http.Redirect(rw, r, "/"+token, http.StatusFound)
				return
			}
			rw.WriteHeader(403)
		},
		"an address of a redirect that is none": func(rw http.ResponseWriter, r *http.Request) {
			if !strings.Contains(r.URL.Path, token) {
				http.Redirect(rw, r, "/"+token, http.StatusFound)
				return
			}
			rw.Header().Set("Location", "ftp://x")
			rw.WriteHeader(302)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w.Inject(hubtest.Fault{Instead: answer, Times: -1})
			defer w.ClearFaults()
			_, err := w.client.Fetch(w.ctx, "me/bert", nil)
			require.Error(t, err)
			assert.Contains(t, err.Error(), "***")
			assert.NotContains(t, fmt.Sprintf("%v %+v %#v", err, err, err), "CANARY")
			if answer, ok := errors.AsType[*hub.Error](err); ok {
				assert.NotContains(t, fmt.Sprintf("%v %+v %#v", answer, answer, *answer), "CANARY")
			}
			assert.NotContains(t, w.log.String(), "CANARY")
		})
	}
}

// In a cache that several users share, lock files must be accessible to all of them, as far as the
// umask allows.
func TestLocksOfASharedCacheFollowTheUmask(t *testing.T) {
	old := syscall.Umask(0o002)
	defer syscall.Umask(old)
	w := newWorld(t)
	w.model("me/bert")
	_, err := w.client.Fetch(w.ctx, "me/bert", nil)
	require.NoError(t, err)
	locks := 0
	require.NoError(t, filepath.WalkDir(filepath.Join(w.client.CacheDir, ".locks"),
		func(path string, e fs.DirEntry, err error) error {
			require.NoError(t, err)
			if info, err := e.Info(); !e.IsDir() {
				require.NoError(t, err)
				assert.Equal(t, fs.FileMode(0o664), info.Mode().Perm(), path)
				locks++
			}
			return nil
		}))
	assert.Positive(t, locks)
}

func TestACacheThatCannotLockWarnsAndIsUsed(t *testing.T) {
	for _, fault := range []error{syscall.ENOSYS, syscall.ENOLCK, syscall.EOPNOTSUPP} {
		w := newWorld(t)
		w.model("me/bert")
		_, err := w.client.Fetch(hub.WithoutLocks(w.ctx, fault), "me/bert", nil)
		require.NoError(t, err)
		assert.Contains(t, w.log.String(), "cannot lock files")
	}
}

// transport is an http.RoundTripper made from a function.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// twins creates a repository with two files of the same content, which share one blob.
func (w *world) twins(id string) (files map[string][]byte) {
	w.CreateRepo(hubtest.Model, id, hubtest.Public)
	files = map[string][]byte{"a.txt": []byte("the same"), "b.txt": []byte("the same")}
	w.Commit(hubtest.Model, id, "main", files)
	return files
}

func TestTwoFilesOfOneContentAreFetchedOnceWithoutLocks(t *testing.T) {
	w := newWorld(t)
	files := w.twins("me/twins")
	w.client.HTTPClient = &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
		if strings.HasSuffix(r.URL.Path, ".txt") {
			time.Sleep(50 * time.Millisecond) // time for the other one to start
		}
		return http.DefaultTransport.RoundTrip(r)
	})}
	repo, err := w.client.Fetch(hub.WithoutLocks(w.ctx, syscall.ENOLCK), "me/twins", nil)
	require.NoError(t, err)
	same(t, repo.Dir, files)
	assert.Equal(t, 1, w.count("GET", ".txt"))
}

// endOfBody calls a function at the end of the body.
type endOfBody struct {
	io.ReadCloser
	call func()
}

func (e endOfBody) Read(b []byte) (int, error) {
	n, err := e.ReadCloser.Read(b)
	if errors.Is(err, io.EOF) {
		e.call()
	}
	return n, err
}

// Without locks another process may fetch the same blob and rename the shared file first.
func TestABlobThatAnotherProcessHasFinishedIsTaken(t *testing.T) {
	w := newWorld(t)
	files := w.twins("me/twins")
	w.client.Workers = 1
	w.client.HTTPClient = &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
		answer, err := http.DefaultTransport.RoundTrip(r)
		if err == nil && strings.HasSuffix(r.URL.Path, ".txt") {
			answer.Body = endOfBody{answer.Body, func() {
				partial, err := filepath.Glob(filepath.Join(w.client.CacheDir, "*", "blobs", "*.incomplete"))
				if assert.NoError(t, err) && assert.Len(t, partial, 1) {
					assert.NoError(t, os.Rename(partial[0], strings.TrimSuffix(partial[0], ".incomplete")))
				}
			}}
		}
		return answer, err
	})}
	repo, err := w.client.Fetch(w.ctx, "me/twins", nil)
	require.NoError(t, err)
	same(t, repo.Dir, files)
}

// countingTransport counts requests.
type countingTransport struct{ requests int }

func (c *countingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	c.requests++
	return http.DefaultTransport.RoundTrip(r)
}

func TestWithoutAClientOfItsOwnItIsThatOfNetHTTP(t *testing.T) {
	w := newWorld(t)
	w.model("me/bert")
	former, counting := http.DefaultClient, &countingTransport{}
	t.Cleanup(func() { http.DefaultClient = former })
	http.DefaultClient = &http.Client{Transport: counting}
	_, err := w.client.Info(w.ctx, "me/bert", nil)
	require.NoError(t, err)
	assert.Positive(t, counting.requests)
}
