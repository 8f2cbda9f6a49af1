package hub

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// piece is the size of a read: small enough for memory not to matter, large enough for a fast
// connection.
const piece = 1 << 20

// download fetches the content of one file.
type download struct {
	*conn
	*store
	repo   repository
	commit string
	name   string
	etag   string // normalized
	size   int64  // -1 if unknown
	force  bool   // fetch it even if it is cached
	meter  *meter
}

// run puts the file into the snapshot: from its blob if that is cached, otherwise from the Hub.
func (d *download) run(ctx context.Context) error {
	if err := checkName(d.name); err != nil {
		return err
	}
	if err := checkEtag(d.etag); err != nil {
		return err
	}
	if !d.force && d.has(d.commit, d.name) {
		d.meter.finish(d.name)
		return nil
	}
	unlock, err := d.lock(ctx, d.etag)
	if err != nil {
		return err
	}
	defer unlock()
	if !d.force && d.has(d.commit, d.name) { // another process fetched it while this one waited
		d.meter.finish(d.name)
		return nil
	}
	blob := d.in("blobs", d.etag)
	fresh := false
	if d.force || !d.hasBlob(blob) {
		if err := d.fetch(ctx, blob); err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
		fresh = true
	}
	if err := d.link(d.commit, d.name, d.etag, fresh); err != nil {
		return err
	}
	d.meter.finish(d.name)
	return nil
}

// fetch downloads the blob. It resumes a partial download, and discards it if the checksum is
// wrong.
func (d *download) fetch(ctx context.Context, blob string) error {
	partial := blob + ".incomplete"
	if err := d.root.MkdirAll(filepath.Dir(blob), 0o777); err != nil {
		return fmt.Errorf("cannot make the cache's folder: %w", err)
	}
	d.meter.expect(d.name, d.size)
	resumed := false
	for {
		have, err := d.transfer(ctx, partial)
		resumed = resumed || have > 0
		if err == nil {
			break
		}
		if !errors.Is(err, ErrChecksum) {
			return err // the partial file stays for the next try
		}
		_ = d.root.Remove(partial)
		d.meter.set(d.name, 0)
		if !resumed {
			return err
		}
		d.log.WarnContext(ctx, "hub: the resumed file is damaged, so it is fetched from its start", "file", d.name)
		resumed = false
	}
	err := d.root.Rename(partial, blob)
	if errors.Is(err, fs.ErrNotExist) && d.hasBlob(blob) {
		return nil // another process has also fetched it, and was first
	}
	if err != nil {
		return fmt.Errorf("cannot finish the file: %w", err)
	}
	return nil
}

// hasBlob reports whether a blob is cached. Like has, it follows links.
func (d *download) hasBlob(blob string) bool {
	info, err := os.Stat(filepath.Join(d.dir, blob))
	return err == nil && info.Mode().IsRegular()
}

// transfer fetches the missing part of the partial file, however often the connection breaks, and
// checks the whole file. It returns the size that an earlier download had left.
func (d *download) transfer(ctx context.Context, partial string) (have int64, err error) {
	f, err := d.root.OpenFile(partial, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return 0, fmt.Errorf("cannot write to the cache: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, fmt.Errorf("cannot read the cache: %w", err)
	}
	have = info.Size()
	if d.size >= 0 && have > d.size {
		if err := f.Truncate(0); err != nil {
			return 0, fmt.Errorf("cannot write to the cache: %w", err)
		}
		have = 0
	}
	sum := newSum(d.etag, d.size)
	if have > 0 {
		if err := copyContext(ctx, sum, io.LimitReader(f, have)); err != nil {
			return have, fmt.Errorf("cannot read the cache: %w", err)
		}
		d.meter.set(d.name, have)
	}
	done := have
	complete := d.size >= 0 && done == d.size
	if !complete || d.size == 0 {
		err = d.retry(ctx, func() (bool, error) {
			before := done
			err := d.receive(ctx, f, &done, &sum)
			return done > before, err
		})
		if err != nil {
			return have, err
		}
	}
	if err := sum.check(done); err != nil {
		return have, err
	}
	if err := f.Sync(); err != nil { // a crash of the machine must not leave the final name with partial content
		return have, fmt.Errorf("cannot write to the cache: %w", err)
	}
	return have, nil
}

// receive makes one request for the rest of the file and writes what it receives.
func (d *download) receive(ctx context.Context, f *os.File, done *int64, sum *checksum) error {
	r := request{
		method: http.MethodGet,
		url:    d.base + d.repo.files() + "/resolve/" + url.PathEscape(d.commit) + "/" + escapePath(d.name),
	}
	if *done > 0 {
		r.header = map[string]string{"Range": fmt.Sprintf("bytes=%d-", *done)}
	}
	resp, err := d.send(ctx, r)
	var answer *Error
	if errors.As(err, &answer) && answer.Status == http.StatusRequestedRangeNotSatisfiable {
		return fmt.Errorf("the part that is there is longer than the file: %w", ErrChecksum)
	}
	if err != nil {
		return err
	}
	defer quietly(resp.Body)
	if *done > 0 && (resp.StatusCode != http.StatusPartialContent ||
		rangeStart(resp.Header.Get("Content-Range")) != *done) {
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("the server answers %d with the range %q instead of the bytes from %d on",
				resp.StatusCode, resp.Header.Get("Content-Range"), *done)
		}
		*done, *sum = 0, newSum(d.etag, d.size) // the server sends the whole file
		if err := f.Truncate(0); err != nil {
			return fmt.Errorf("cannot write to the cache: %w", err)
		}
		d.meter.set(d.name, 0)
	}
	buffer := make([]byte, piece)
	for {
		n, err := resp.Body.Read(buffer)
		if n > 0 {
			if d.size >= 0 && *done+int64(n) > d.size {
				return fmt.Errorf("the server sends more than the %d bytes that the file has: %w", d.size, ErrChecksum)
			}
			if _, err := f.WriteAt(buffer[:n], *done); err != nil {
				return fmt.Errorf("cannot write to the cache: %w", err)
			}
			_, _ = sum.Write(buffer[:n]) // a hash cannot fail
			*done += int64(n)
			d.meter.set(d.name, *done)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	if d.size >= 0 && *done < d.size { // a regular end, but too early: a proxy may have lost its connection
		return &networkError{bare(resp.Request.URL), io.ErrUnexpectedEOF}
	}
	return nil
}

// rangeStart returns the first byte of a Content-Range, or -1.
func rangeStart(header string) int64 {
	rest, ok := strings.CutPrefix(header, "bytes ")
	if !ok {
		return -1
	}
	first, _, _ := strings.Cut(rest, "-")
	n, err := strconv.ParseUint(first, 10, 63)
	if err != nil {
		return -1
	}
	return int64(n)
}

// checksum computes and checks the sum in an etag.
type checksum struct {
	hash hash.Hash // nil if the etag is not a checksum
	want string
	size int64
}

// newSum starts the checksum of a file: SHA-256 for a large file, git's SHA-1 of a blob for others.
// The latter includes the size, so it cannot be checked if the size is unknown. Etags of other
// lengths, as from mirrors of the Hub, are not checksums.
func newSum(etag string, size int64) checksum {
	c := checksum{want: etag, size: size}
	switch {
	case sha256Pattern.MatchString(etag):
		c.hash = sha256.New()
	case commitPattern.MatchString(etag) && size >= 0:
		c.hash = sha1.New()
		fmt.Fprintf(c.hash, "blob %d\x00", size)
	}
	return c
}

func (c checksum) Write(p []byte) (int, error) {
	if c.hash != nil {
		return c.hash.Write(p)
	}
	return len(p), nil
}

// check compares the checksum and the size with those from the Hub.
func (c checksum) check(size int64) error {
	if c.size >= 0 && size != c.size {
		return fmt.Errorf("it has %d bytes, the Hub says %d: %w", size, c.size, ErrChecksum)
	}
	if c.hash == nil {
		return nil
	}
	if got := hex.EncodeToString(c.hash.Sum(nil)); got != c.want {
		return fmt.Errorf("its sum is %s, the Hub says %s: %w", got, c.want, ErrChecksum)
	}
	return nil
}

// copyContext copies until the context ends.
func copyContext(ctx context.Context, w io.Writer, r io.Reader) error {
	buffer := make([]byte, piece)
	for ctx.Err() == nil {
		n, err := r.Read(buffer)
		if _, failed := w.Write(buffer[:n]); failed != nil {
			return failed
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}
