package hub

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// lfsHeaders are the headers of the git-lfs protocol.
var lfsHeaders = map[string]string{"Accept": "application/vnd.git-lfs+json",
	"Content-Type": "application/vnd.git-lfs+json"}

// lfsAction is the address for an upload or its verification. The header of a multipart upload has
// the size of a part and an address for each part.
type lfsAction struct {
	Href   string            `json:"href"`
	Header map[string]string `json:"header"`
}

// lfsObject is an object of a batch with the requested actions: none if the Hub already has it.
type lfsObject struct {
	OID     string `json:"oid"`
	Size    int64  `json:"size"`
	Actions *struct {
		Upload *lfsAction `json:"upload"`
		Verify *lfsAction `json:"verify"`
	} `json:"actions,omitempty"`
	Error *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// uploadLarge sends the large files that the Hub does not have.
func (c *conn) uploadLarge(ctx context.Context, r repository, branch string, additions []*addition, m *meter) error {
	byOID := map[string]*addition{}
	var large []*addition
	for _, a := range additions {
		if !a.large {
			m.expect(a.path, a.size)
		} else if byOID[a.sum] == nil { // two files with the same content are one object
			byOID[a.sum] = a
			large = append(large, a)
		} else {
			m.finish(a.path)
		}
	}
	var objects []lfsObject
	for batch := range slices.Chunk(large, preuploadBatch) {
		answered, err := c.lfsBatch(ctx, r, branch, batch)
		if err != nil {
			return err
		}
		objects = append(objects, answered...)
	}
	for _, o := range objects {
		a := byOID[o.OID]
		if a == nil {
			return fmt.Errorf("the Hub speaks of an object %.80q that it was not asked about", o.OID)
		}
		if o.Actions == nil || o.Actions.Upload == nil {
			m.finish(a.path)
		} else {
			m.expect(a.path, a.size)
		}
	}
	return c.each(ctx, len(objects), func(ctx context.Context, i int) error {
		o := objects[i]
		a := byOID[o.OID]
		if o.Actions == nil || o.Actions.Upload == nil {
			return nil
		}
		if err := c.uploadObject(ctx, a, *o.Actions.Upload, m); err != nil {
			return fmt.Errorf("%s: %w", a.path, err)
		}
		if v := o.Actions.Verify; v != nil {
			body, err := json.Marshal(lfsObject{OID: a.sum, Size: a.size})
			if err != nil {
				return err
			}
			if err := c.do(ctx, c.lfsRequest(v.Href, body, false), nil); err != nil {
				return fmt.Errorf("%s was sent, but not taken: %w", a.path, err)
			}
		}
		m.finish(a.path)
		return nil
	})
}

// lfsBatch asks the Hub where to send objects.
func (c *conn) lfsBatch(ctx context.Context, r repository, branch string, additions []*addition) ([]lfsObject, error) {
	type ref struct {
		Name string `json:"name"`
	}
	question := struct {
		Operation string      `json:"operation"`
		Transfers []string    `json:"transfers"`
		Objects   []lfsObject `json:"objects"`
		HashAlgo  string      `json:"hash_algo"`
		Ref       ref         `json:"ref"`
	}{Operation: "upload", Transfers: []string{"basic", "multipart"}, HashAlgo: "sha256", Ref: ref{branch}}
	for _, a := range additions {
		question.Objects = append(question.Objects, lfsObject{OID: a.sum, Size: a.size})
	}
	body, err := json.Marshal(question)
	if err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	var answer struct {
		Objects []lfsObject `json:"objects"`
	}
	err = c.do(ctx, c.lfsRequest(c.base+r.files()+".git/info/lfs/objects/batch", body, false),
		func(resp *http.Response) error { return decode(resp, &answer) })
	if err != nil {
		return nil, err
	}
	for _, o := range answer.Objects {
		if o.Error != nil {
			return nil, fmt.Errorf("the Hub refuses the large file %.64s: %s (%d)", o.OID,
				c.token.redact(o.Error.Message),
				o.Error.Code)
		}
	}
	if len(answer.Objects) != len(additions) {
		return nil, fmt.Errorf("the Hub speaks of %d large files instead of %d; check the endpoint",
			len(answer.Objects), len(additions))
	}
	return answer.Objects, nil
}

// lfsRequest returns a POST request of the git-lfs protocol. In addresses, it replaces the public
// Hub by the endpoint, which may be a mirror.
func (c *conn) lfsRequest(href string, body []byte, signed bool) request {
	if rest, ok := strings.CutPrefix(href, DefaultEndpoint+"/"); ok {
		href = c.base + "/" + rest
	}
	return request{
		method: http.MethodPost, url: href, header: lfsHeaders, signed: signed,
		body: func() (io.Reader, error) { return bytes.NewReader(body), nil }, size: int64(len(body)),
	}
}

// uploadObject sends one object, whole or in parts, as the Hub requests.
func (c *conn) uploadObject(ctx context.Context, a *addition, to lfsAction, m *meter) error {
	file, closer, err := a.open()
	if err != nil {
		return err
	}
	defer quietly(closer)
	text, inParts := to.Header["chunk_size"]
	if !inParts {
		_, err := c.put(ctx, a.path, to.Href, file, 0, a.size, m)
		return err
	}
	chunk, err := strconv.ParseInt(text, 10, 64)
	if err != nil || chunk <= 0 {
		return fmt.Errorf("the Hub asks for parts of %.40q bytes", text)
	}
	addresses, err := partAddresses(to.Header, a.size, chunk)
	if err != nil {
		return err
	}
	type part struct {
		PartNumber int    `json:"partNumber"`
		ETag       string `json:"etag"`
	}
	parts := make([]part, len(addresses))
	var mu sync.Mutex
	err = c.each(ctx, len(addresses), func(ctx context.Context, i int) error {
		offset := int64(i) * chunk
		etag, err := c.put(ctx, a.path, addresses[i], file, offset, min(chunk, a.size-offset), m)
		if err == nil && etag == "" {
			err = fmt.Errorf("part %d was taken without an etag", i+1)
		}
		mu.Lock()
		defer mu.Unlock()
		parts[i] = part{i + 1, etag}
		return err
	})
	if err != nil {
		return err
	}
	body, err := json.Marshal(struct {
		OID   string `json:"oid"`
		Parts []part `json:"parts"`
	}{a.sum, parts})
	if err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	return c.do(ctx, c.lfsRequest(to.Href, body, true), nil)
}

// partAddresses returns the addresses of the parts in order; their keys in the header are numbers.
func partAddresses(header map[string]string, size, chunk int64) ([]string, error) {
	type numbered struct {
		number  int
		address string
	}
	var found []numbered
	for k, v := range header {
		if n, err := strconv.Atoi(k); err == nil {
			found = append(found, numbered{n, v})
		}
	}
	slices.SortFunc(found, func(a, b numbered) int { return a.number - b.number })
	if want := (size-1)/chunk + 1; int64(len(found)) != want {
		return nil, fmt.Errorf("the Hub gives addresses for %d parts of %d bytes, but the file of %d bytes has %d",
			len(found), chunk, size, want)
	}
	addresses := make([]string, len(found))
	for i, f := range found {
		addresses[i] = f.address
	}
	return addresses, nil
}

// put sends a part of a file to a signed address and returns its etag.
func (c *conn) put(ctx context.Context, name, href string, file io.ReaderAt, offset, size int64, m *meter) (etag string,
	err error) {
	var last *countedReader
	r := request{method: http.MethodPut, url: href, signed: true, size: size}
	r.body = func() (io.Reader, error) {
		last.undo() // the bytes that a failed try had sent
		last = &countedReader{Reader: io.NewSectionReader(file, offset, size), name: name, meter: m}
		return last, nil
	}
	err = c.do(ctx, r, func(resp *http.Response) error {
		etag = resp.Header.Get("ETag")
		drain(resp.Body)
		return nil
	})
	return etag, err
}

// countedReader reports the bytes read to the meter, until it is undone: the transport may still read for
// a moment after a try has failed.
type countedReader struct {
	io.Reader
	name  string
	meter *meter

	mu     sync.Mutex
	n      int64
	undone bool
}

func (r *countedReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.undone {
		r.n += int64(n)
		r.meter.add(r.name, int64(n))
	}
	return n, err
}

func (r *countedReader) undo() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.undone = true
	r.meter.add(r.name, -r.n)
}
