package hub

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// The longest pauses between tries: without and with a wait requested by the Hub, whose rate limits
// have windows of five minutes.
const (
	maxPause     = 8 * time.Second
	maxRetryWait = 10 * time.Minute
)

// retry calls try until it succeeds, fails permanently, or has failed too often without progress.
// The pauses double from c.pause up to eight seconds, unless the Hub says how long to wait.
func (c *conn) retry(ctx context.Context, try func() (progress bool, err error)) error {
	pause := c.pause
	for failures := 1; ; failures++ {
		progress, err := try()
		if err == nil {
			return nil
		}
		err = c.token.redactError(err)
		if ctx.Err() != nil {
			return fmt.Errorf("%w (after %w)", context.Cause(ctx), err)
		}
		if progress {
			failures, pause = 1, c.pause
		}
		if !isTemporary(err) || failures > c.retries {
			return err
		}
		wait := pause
		var answer *Error
		if errors.As(err, &answer) && answer.wait != "" {
			if asked, ok := parseWait(answer.wait, c.now()); ok {
				wait = asked
			}
		}
		if wait > maxRetryWait {
			return fmt.Errorf("%w; it asks to wait %v, longer than the %v that this client waits: try again then", err,
				wait, maxRetryWait)
		}
		c.log.WarnContext(ctx, "hub: trying again", "after", err.Error(), "pause", wait, "failures", failures)
		if err := c.sleep(ctx, wait); err != nil {
			return err
		}
		pause = min(2*pause, max(maxPause, c.pause))
	}
}

// sleep waits, or returns why the context ended.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// rateLimit matches the Hub's header RateLimit: the remaining requests in the window (r), and the
// seconds until the next window (t).
var rateLimit = regexp.MustCompile(`"\w+"\s*;\s*r\s*=\s*(\d+)\s*;\s*t\s*=\s*(\d+)`)

// waitHeader returns the header value that says how long to wait: the rest of the window if the
// rate limit is exhausted, otherwise Retry-After.
func waitHeader(h http.Header) string {
	if m := rateLimit.FindStringSubmatch(h.Get("RateLimit")); m != nil && m[1] == "0" {
		return m[2]
	}
	return h.Get("Retry-After")
}

// parseWait parses a number of seconds or a date. It adds a second to a number, since the server
// counts whole seconds.
func parseWait(text string, now time.Time) (time.Duration, bool) {
	text = strings.TrimSpace(text)
	if seconds, err := strconv.ParseUint(text, 10, 32); err == nil {
		if seconds == 0 {
			return 0, true
		}
		return time.Duration(seconds+1) * time.Second, true
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now)), true
	}
	return 0, false
}
