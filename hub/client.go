package hub

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Client talks to one Hub. The zero value takes its settings from the environment, which every
// call reads again. Its methods are safe for concurrent use as long as the fields are not changed.
type Client struct {
	Endpoint string // the Hub's address; "" means HF_ENDPOINT or else [DefaultEndpoint]
	CacheDir string // where repositories are kept; "" means what [CacheDir] returns

	Token     Secret // sent with each request to the endpoint; empty means what [Token] returns
	Anonymous bool   // send no token, whatever the environment has

	Offline bool // use no network; HF_HUB_OFFLINE does the same

	Retries int           // retries of a request after a transient failure; zero means 5, negative none
	Pause   time.Duration // before the first retry, doubled for each further one up to 8 s; zero means 1 s
	// time without a byte from the server after which a download's connection counts as broken;
	// zero means HF_HUB_DOWNLOAD_TIMEOUT or else 10 s
	Timeout time.Duration
	Workers int // files transferred at once; zero means 8, as in Python

	// for proxies and certificates; nil means [http.DefaultClient]. Its CheckRedirect is not used.
	HTTPClient *http.Client
	UserAgent  string       // prepended to this package's own
	Log        *slog.Logger // for retries and fallbacks; nil means slog.Default
}

// conn is a client with all settings resolved, for one call.
type conn struct {
	endpoint *url.URL
	base     string // the endpoint without a slash at its end
	cache    string
	token    Secret
	offline  bool
	retries  int
	pause    time.Duration
	timeout  time.Duration
	workers  int
	http     *http.Client
	agent    string
	log      *slog.Logger
	links    bool

	sleep func(context.Context, time.Duration) error
	now   func() time.Time
}

// sleepForTests is the context key of a function that replaces the pauses between retries in tests.
type sleepForTests struct{}

// connect resolves the settings, taking those not set in the fields from the environment.
func (c *Client) connect(ctx context.Context) (*conn, error) {
	base := strings.TrimRight(cmp.Or(c.Endpoint, os.Getenv("HF_ENDPOINT"), DefaultEndpoint), "/")
	endpoint, err := url.Parse(base)
	if err != nil || (endpoint.Scheme != "http" && endpoint.Scheme != "https") || endpoint.Host == "" ||
		endpoint.User != nil || endpoint.RawQuery != "" {
		return nil, fmt.Errorf("hub: the endpoint must be an address like %s without user and query; see "+
			"Client.Endpoint and HF_ENDPOINT", DefaultEndpoint)
	}
	out := &conn{
		endpoint: endpoint, base: base, cache: c.CacheDir, token: c.Token, offline: c.Offline || offlineEnv(),
		retries: c.Retries, pause: c.Pause, timeout: c.Timeout, workers: c.Workers, log: c.Log,
		links: !isTrue(os.Getenv("HF_HUB_DISABLE_SYMLINKS")), sleep: sleep, now: time.Now,
	}
	if f, ok := ctx.Value(sleepForTests{}).(func(context.Context, time.Duration) error); ok {
		out.sleep = f
	}
	if out.cache == "" {
		if out.cache, err = CacheDir(); err != nil {
			return nil, err
		}
	}
	if out.cache, err = filepath.Abs(out.cache); err != nil {
		return nil, fmt.Errorf("hub: the cache's folder: %w", err)
	}
	switch {
	case c.Anonymous:
		out.token = Secret{}
	case out.token.IsZero() && !isTrue(os.Getenv("HF_HUB_DISABLE_IMPLICIT_TOKEN")):
		if out.token, err = Token(); err != nil {
			return nil, err
		}
	}
	switch {
	case out.retries == 0:
		out.retries = 5
	case out.retries < 0:
		out.retries = 0
	}
	if out.pause <= 0 {
		out.pause = time.Second
	}
	if out.timeout <= 0 {
		out.timeout = timeoutEnv()
	}
	if out.workers <= 0 {
		out.workers = 8
	}
	if out.log == nil {
		out.log = slog.Default() // which writes warnings to standard error
	}
	client := *http.DefaultClient
	if c.HTTPClient != nil {
		client = *c.HTTPClient
	}
	// conn follows redirects itself, to decide which servers get the token
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	out.http = &client
	out.agent = "gotrainer-hub"
	if c.UserAgent != "" {
		out.agent = c.UserAgent + "; " + out.agent
	}
	return out, nil
}
