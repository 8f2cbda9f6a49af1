package hub

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// patience is how long the Hub may take to respond to requests that change something: a large
// commit takes minutes.
const patience = 5 * time.Minute

// maxJSON limits the size of a response held in memory; a page of a listing has about a thousandth
// of it.
const maxJSON = 256 << 20

// errStalled is the cause of canceling a stalled request.
var errStalled = errors.New("no byte came")

// request is a request that can be sent several times.
type request struct {
	method, url string
	header      map[string]string
	body        func() (io.Reader, error) // a new reader for each try; nil means no body
	size        int64                     // of the body
	stay        bool                      // do not follow a redirect to another server, but return it
	signed      bool                      // the address has its own signature; send no token
}

// send makes one try: it sends the request, follows redirects, and returns the response or an
// error. The caller closes the body.
func (c *conn) send(ctx context.Context, r request) (*http.Response, error) {
	if c.offline {
		return nil, ErrOffline
	}
	at, err := url.Parse(r.url)
	if err != nil {
		return nil, fmt.Errorf("hub: the Hub gave an address that cannot be parsed")
	}
	for hops := 0; ; hops++ {
		resp, err := c.sendOnce(ctx, r, at)
		if err != nil {
			return nil, err
		}
		location := resp.Header.Get("Location")
		switch {
		case resp.StatusCode >= 400:
			defer quietly(resp.Body)
			return nil, failure(r.method, resp, c.token)
		case resp.StatusCode < 300 || location == "":
			return resp, nil
		}
		next, err := at.Parse(location)
		if err != nil || next.Scheme != "http" && next.Scheme != "https" {
			quietly(resp.Body)
			return nil, fmt.Errorf("hub: %s redirects to something that is not an address of http", bare(at))
		}
		if r.stay && !c.trusts(next) {
			return resp, nil
		}
		quietly(resp.Body)
		if hops == 20 {
			return nil, fmt.Errorf("hub: %s redirects more than 20 times", r.url)
		}
		if r.method != http.MethodGet && r.method != http.MethodHead &&
			resp.StatusCode != http.StatusTemporaryRedirect && resp.StatusCode != http.StatusPermanentRedirect {
			return nil, fmt.Errorf("hub: %s %s is redirected with status %d, which would lose its body; check the "+
				"endpoint", r.method, bare(at), resp.StatusCode)
		}
		at = next
	}
}

// trusts reports whether the token may be sent to an address: the endpoint itself, or the Hub's own
// names.
func (c *conn) trusts(u *url.URL) bool {
	if u.Scheme == c.endpoint.Scheme && strings.EqualFold(u.Host, c.endpoint.Host) {
		return true
	}
	return u.Scheme == "https" && (strings.EqualFold(u.Host, "huggingface.co") || strings.EqualFold(u.Host, "hf.co"))
}

// sendOnce makes one request under a watch: if no byte is transferred for some time, the connection
// counts as broken.
func (c *conn) sendOnce(ctx context.Context, r request, at *url.URL) (*http.Response, error) {
	limit := patience
	if r.method == http.MethodGet || r.method == http.MethodHead {
		limit = c.timeout
	}
	ctx, cancel := context.WithCancelCause(ctx)
	w := &watch{limit: limit, cancel: cancel}
	w.timer = time.AfterFunc(limit, func() { cancel(errStalled) })
	resp, err := c.sendWatched(ctx, r, at, w)
	if err != nil {
		w.stop()
		return nil, err
	}
	resp.Body = &watchedBody{resp.Body, ctx, w, bare(at)}
	return resp, nil
}

func (c *conn) sendWatched(ctx context.Context, r request, at *url.URL, w *watch) (*http.Response, error) {
	var body io.Reader
	var local *localReader
	if r.body != nil {
		content, err := r.body()
		if err != nil {
			return nil, err
		}
		local = &localReader{Reader: content, watch: w}
		if body = local; r.size == 0 {
			body = http.NoBody
		}
	}
	req, err := http.NewRequestWithContext(ctx, r.method, at.String(), body)
	if err != nil {
		return nil, fmt.Errorf("hub: %s %s is not a request that can be made", r.method, bare(at))
	}
	if body != nil {
		req.ContentLength = r.size
	}
	req.Header.Set("User-Agent", c.agent)
	req.Header.Set("Accept-Encoding", "identity") // so that sizes and ranges are those of the file
	for k, v := range r.header {
		req.Header.Set(k, v)
	}
	if !c.token.IsZero() && !r.signed && c.trusts(at) {
		req.Header.Set("Authorization", "Bearer "+c.token.Reveal())
	}
	resp, err := c.http.Do(req)
	if err == nil {
		return resp, nil
	}
	if local != nil {
		if failed := local.failed(); failed != nil {
			return nil, failed // reading the local file failed, not the network
		}
	}
	return nil, brokenOff(ctx, bare(at), err)
}

// brokenOff returns the error of a request or response that ended early. It does not use the text
// of net/http's error, which has the whole address with its query.
func brokenOff(ctx context.Context, address string, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		if !errors.Is(cause, errStalled) {
			return cause
		}
		err = cause
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return &networkError{address, err}
}

// watch cancels a request that stalls.
type watch struct {
	limit  time.Duration
	timer  *time.Timer
	cancel context.CancelCauseFunc
}

func (w *watch) moved() { w.timer.Reset(w.limit) }

func (w *watch) stop() {
	w.timer.Stop()
	w.cancel(nil)
}

// watchedBody is the body of a response. Its read errors are network errors.
type watchedBody struct {
	io.ReadCloser
	ctx     context.Context
	watch   *watch
	address string
}

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.watch.moved()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = brokenOff(b.ctx, b.address, err)
	}
	return n, err
}

func (b *watchedBody) Close() error {
	err := b.ReadCloser.Close()
	b.watch.stop()
	return err
}

// localReader is a request body. It records read errors, to distinguish them from network errors.
type localReader struct {
	io.Reader
	watch *watch

	mu  sync.Mutex // the transport reads in its own goroutine
	err error
}

func (l *localReader) Read(p []byte) (int, error) {
	n, err := l.Reader.Read(p)
	l.watch.moved()
	if err != nil && !errors.Is(err, io.EOF) {
		l.mu.Lock()
		l.err = err
		l.mu.Unlock()
	}
	return n, err
}

func (l *localReader) failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// do sends a request with retries, and calls read, if it is not nil, with the response. It also
// retries if the body breaks off.
func (c *conn) do(ctx context.Context, r request, read func(*http.Response) error) error {
	return c.retry(ctx, func() (bool, error) {
		resp, err := c.send(ctx, r)
		if err != nil {
			return false, err
		}
		defer quietly(resp.Body)
		if read == nil {
			drain(resp.Body)
			return false, nil
		}
		return false, read(resp)
	})
}

// call sends in as JSON, if it is not nil, and decodes the response into out, if that is not nil.
func (c *conn) call(ctx context.Context, method, path string, in, out any) error {
	r := request{method: method, url: c.base + path}
	if in != nil {
		body, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("hub: %w", err)
		}
		r.header = map[string]string{"Content-Type": "application/json"}
		r.body, r.size = func() (io.Reader, error) { return bytes.NewReader(body), nil }, int64(len(body))
	}
	if out == nil {
		return c.do(ctx, r, nil)
	}
	return c.do(ctx, r, func(resp *http.Response) error { return decode(resp, out) })
}

// decode decodes the JSON body of a response.
func decode(resp *http.Response, out any) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxJSON+1))
	if err != nil {
		return err
	}
	if len(body) > maxJSON {
		return fmt.Errorf("hub: the answer of %s is larger than %d MiB", bare(resp.Request.URL), maxJSON>>20)
	}
	if err := json.Unmarshal(body, out); err != nil {
		return fmt.Errorf("hub: %s does not answer with the JSON of a Hub: %w; check the endpoint and proxies",
			bare(resp.Request.URL), err)
	}
	return nil
}
