package hub

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// The kinds of errors, for [errors.Is].
var (
	ErrRepoNotFound     = errors.New("the repository does not exist, or the token may not see it")
	ErrRevisionNotFound = errors.New("the repository has no such branch, tag or commit")
	ErrFileNotFound     = errors.New("the repository has no such file at this revision")
	ErrGated            = errors.New("the repository is gated: ask for access on its page, and use a token of the " +
		"account that was granted it")
	ErrUnauthorized = errors.New("the token is missing or not valid; set HF_TOKEN or call Login")
	ErrForbidden    = errors.New("the token has no right to do this")
	ErrRateLimited  = errors.New("too many requests")
	ErrUnreachable  = errors.New("the Hub cannot be reached")
	ErrNotCached    = errors.New("the cache does not have it, and the network may not or cannot be used")
	ErrOffline      = errors.New("offline mode is on (HF_HUB_OFFLINE or Client.Offline)")
	ErrChecksum     = errors.New("the content is not what the Hub says it should be")
	ErrName         = errors.New("the name is not allowed")
	ErrConflict     = errors.New("it conflicts with what is there")
)

// Error is an error response of the Hub.
type Error struct {
	Method    string // of the request: "GET"
	URL       string // without the query, which may hold a signature
	Status    int    // 404
	Code      string // the Hub's error code, "RevisionNotFound"; often empty
	Message   string // the Hub's explanation; may be empty
	RequestID string // for questions to the Hub's support; may be empty

	wait   string // Retry-After and the like
	commit string // X-Repo-Commit: the commit that lacks the file
}

// Error describes the request and the response.
func (e *Error) Error() string {
	text := fmt.Sprintf("%s %s: %d %s", e.Method, e.URL, e.Status, http.StatusText(e.Status))
	if known := e.Unwrap(); known != nil {
		text += ": " + known.Error()
	}
	if e.Message != "" {
		text += " (the Hub says: " + e.Message + ")"
	}
	if e.RequestID != "" {
		text += " [request " + e.RequestID + "]"
	}
	return text
}

// Unwrap returns the kind of the error, one of this package's variables, or nil.
func (e *Error) Unwrap() error {
	switch e.Code {
	case "RevisionNotFound":
		return ErrRevisionNotFound
	case "EntryNotFound":
		return ErrFileNotFound
	case "GatedRepo":
		return ErrGated
	case "RepoNotFound":
		return ErrRepoNotFound
	}
	switch e.Status {
	case http.StatusUnauthorized:
		return ErrUnauthorized
	case http.StatusForbidden:
		return ErrForbidden
	case http.StatusConflict, http.StatusPreconditionFailed:
		return ErrConflict
	case http.StatusTooManyRequests:
		return ErrRateLimited
	}
	return nil
}

// failure makes an Error from a response of status 400 or more. It redacts the token, which some
// servers repeat for debugging.
func failure(method string, resp *http.Response, token Secret) *Error {
	e := &Error{
		Method: method, URL: bare(resp.Request.URL), Status: resp.StatusCode,
		Code: resp.Header.Get("X-Error-Code"), Message: resp.Header.Get("X-Error-Message"),
		wait: waitHeader(resp.Header), commit: resp.Header.Get("X-Repo-Commit"),
	}
	for _, name := range []string{"X-Request-Id", "X-Amzn-Trace-Id", "X-Amz-Cf-Id"} {
		if e.RequestID = resp.Header.Get(name); e.RequestID != "" {
			break
		}
	}
	if e.Message == "" {
		body, err := io.ReadAll(io.LimitReader(resp.Body, 16<<10))
		var said struct {
			Error any `json:"error"`
		}
		if err == nil && json.Unmarshal(body, &said) == nil && said.Error != nil {
			e.Message = fmt.Sprint(said.Error)
		} else if text := strings.TrimSpace(string(body)); err == nil && !strings.HasPrefix(text, "<") {
			e.Message = text
		}
	}
	for _, text := range []*string{&e.URL, &e.Code, &e.Message, &e.RequestID} {
		*text = token.redact(*text)
	}
	if len(e.Message) > 500 {
		e.Message = e.Message[:500] + "..."
	}
	return e
}

// temporary reports whether the same request may succeed later.
func (e *Error) temporary() bool {
	switch e.Status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// networkError is the error of a request that got no response, or only part of one.
type networkError struct {
	url string
	err error
}

func (e *networkError) Error() string { return fmt.Sprintf("%s: %v", e.url, e.err) }

func (e *networkError) Unwrap() []error { return []error{ErrUnreachable, e.err} }

// bare returns an address without user, query and fragment.
func bare(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}

// isTemporary reports whether trying again may help.
func isTemporary(err error) bool {
	var answer *Error
	if errors.As(err, &answer) {
		return answer.temporary()
	}
	var network *networkError
	return errors.As(err, &network)
}
