package hub

import (
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/gotrainer/gotrainer/internal/regularfile"
)

// sampleSize is how many bytes of a file the Hub needs to decide how it is to be sent.
const sampleSize = 512

// addition is a file to be added by a commit.
type addition struct {
	path     string // in the repository
	file     string // "" if content is set
	content  []byte
	size     int64
	modified time.Time
	sample   []byte

	large   bool   // stored in LFS
	ignored bool   // excluded by .gitignore
	remote  string // sum of the branch's file of this name; "" if there is none
	sum     string // SHA-256 of a large file, git's SHA-1 of others
}

// newAddition prepares a file without reading all of it.
func newAddition(c Change) (*addition, error) {
	a := &addition{path: c.Path, file: c.File, content: c.Content, size: int64(len(c.Content))}
	if c.File == "" {
		a.sample = c.Content[:min(len(c.Content), sampleSize)]
		return a, nil
	}
	if c.Content != nil {
		return nil, fmt.Errorf("%q has both a file and a content: %w", c.Path, ErrName)
	}
	f, info, err := regularfile.Open(c.File)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	a.size, a.modified = info.Size(), info.ModTime()
	a.sample = make([]byte, min(a.size, sampleSize))
	if _, err := io.ReadFull(f, a.sample); err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", c.File, err)
	}
	return a, nil
}

// errChanged is the error about a file that was written to while it was being pushed.
var errChanged = errors.New("the file changed while it was being pushed; push a folder that nobody writes to")

// open opens the content. It fails if the file has changed since the push began.
func (a *addition) open() (io.ReaderAt, io.Closer, error) {
	if a.file == "" {
		return bytes.NewReader(a.content), io.NopCloser(nil), nil
	}
	f, info, err := regularfile.Open(a.file)
	if err != nil {
		return nil, nil, err
	}
	if info.Size() != a.size || !info.ModTime().Equal(a.modified) {
		f.Close()
		return nil, nil, fmt.Errorf("%s: %w", a.file, errChanged)
	}
	return f, f, nil
}

// read returns the whole content, for small files.
func (a *addition) read() ([]byte, error) {
	r, closer, err := a.open()
	if err != nil {
		return nil, err
	}
	defer quietly(closer)
	content := make([]byte, a.size)
	if _, err := io.ReadFull(io.NewSectionReader(r, 0, a.size), content); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", a.path, errChanged, err)
	}
	return content, nil
}

// hash computes the sum by which the Hub identifies the content.
func (a *addition) hash(ctx context.Context) error {
	r, closer, err := a.open()
	if err != nil {
		return err
	}
	defer quietly(closer)
	h := sha256.New()
	if !a.large {
		h = sha1.New()
		fmt.Fprintf(h, "blob %d\x00", a.size)
	}
	if err := copyContext(ctx, h, io.NewSectionReader(r, 0, a.size)); err != nil {
		return fmt.Errorf("cannot read %s: %w", a.path, err)
	}
	a.sum = hex.EncodeToString(h.Sum(nil))
	return nil
}
