// Package webdataset reads WebDataset shards: tar files in which the files of a sample are adjacent
// and share the part of their names before the first dot.
//
//	train-0000.tar: 000.jpg 000.json 001.jpg 001.json ...
//
//	shards, err := webdataset.Open([]string{"train-0000.tar", "train-0001.tar"}, webdataset.Options{})
//	sample, err := shards.At(1) // sample.Key: 001, sample.Files["jpg"], sample.Files["json"]
//
// [Open] reads the headers of the shards and skips over their contents; after that any sample can
// be read directly. So shards can be shuffled like any data set, a stream of them
// ([Shards.Samples]) can begin at any sample, and memory holds only about 50 bytes for each file.
// With several processes each takes its own shards: paths[rank::worldSize] of Python is
// [github.com/gotrainer/gotrainer/data.Stride] of the paths here.
package webdataset

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"os"
	"path"
	"runtime"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/regularfile"
)

// Options configures [Open].
type Options struct {
	// MaxSample is the limit for the total size of the files of a sample, in bytes; zero means 1
	// GiB. A larger sample is an error.
	MaxSample int64
}

// Errors that callers may want to tell apart.
var (
	// ErrFormat is wrapped by errors about a file that is damaged, or in a form that cannot be read
	// at random.
	ErrFormat = errors.New("not a valid shard")
	// ErrChanged is wrapped by errors about a shard that has changed.
	ErrChanged = errors.New("the shard has changed since it was opened; its samples are not where they were")
)

// Sample is the set of files in a shard that share a name.
type Sample struct {
	Key   string            // the name before the first dot, including its folder
	Files map[string][]byte // by the part of the name after the first dot, in lower case: "jpg", "seg.png"
}

// Shards is the data set of the samples in tar files. It keeps no file open. Its methods may be
// called by several goroutines at a time.
type Shards struct {
	options Options
	shards  []shard
	ends    []int // ends[k] is the number of samples in shards[:k+1]
}

// shard is a tar file.
type shard struct {
	path    string
	size    int64
	time    time.Time
	samples []sample
	files   []member
}

// sample is where its files are: files[first : first of the next sample].
type sample struct {
	key   string
	first int
}

// member is a file in a shard.
type member struct {
	extension    string
	offset, size int64
}

// Open finds the samples of the shards, in the order in which the shards are given. It reads
// several shards at a time.
func Open(paths []string, o Options) (*Shards, error) {
	if o.MaxSample < 0 {
		return nil, fmt.Errorf("webdataset: Options.MaxSample is %d; it must be positive, or 0 for 1 GiB", o.MaxSample)
	}
	if o.MaxSample == 0 {
		o.MaxSample = 1 << 30
	}
	s := &Shards{options: o, shards: make([]shard, len(paths))}
	errs := make([]error, len(paths))
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(len(paths), runtime.GOMAXPROCS(0)) {
		workers.Go(func() {
			for k := range next {
				if s.shards[k], errs[k] = index(paths[k], o); errs[k] != nil {
					errs[k] = fmt.Errorf("webdataset: %s: %w", paths[k], errs[k])
				}
			}
		})
	}
	for k := range paths {
		next <- k
	}
	close(next)
	workers.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	total := 0
	for _, shard := range s.shards {
		total += len(shard.samples)
		s.ends = append(s.ends, total)
	}
	return s, nil
}

// index reads the headers of a shard.
func index(path string, o Options) (shard, error) {
	s := shard{path: path}
	f, info, err := regularfile.Open(path)
	if errors.Is(err, regularfile.ErrKind) {
		return s, fmt.Errorf("%w: %w", ErrFormat, errors.Unwrap(err))
	}
	if err != nil {
		return s, errors.Unwrap(err)
	}
	defer f.Close()
	s.size, s.time = info.Size(), info.ModTime()
	if s.size == 0 { // tar writes at least its end mark, so this is what an interrupted download leaves
		return s, fmt.Errorf("%w: the file is empty; write it again", ErrFormat)
	}
	var magic [2]byte
	if n, _ := f.ReadAt(magic[:], 0); n == 2 && magic == [2]byte{0x1f, 0x8b} {
		return s, fmt.Errorf("%w: it is compressed by gzip, where no sample can be found without reading everything "+
			"before it; decompress it", ErrFormat)
	}
	reader := tar.NewReader(f)
	seen, weight := map[string]bool{}, int64(0) // of the sample that is being read
	end := int64(0)                             // of the last file, including the padding of its last block
	for {
		h, err := reader.Next()
		if errors.Is(err, io.EOF) {
			if end >= s.size {
				slog.Warn("webdataset: the shard does not have the end mark of a tar file; if it was cut short, samples "+
					"are missing at its end", "file", path, "samples", len(s.samples))
			}
			return s, nil
		}
		if err != nil {
			return s, fmt.Errorf("%w: after %d files: %w", ErrFormat, len(s.files), err)
		}
		offset, err := f.Seek(0, io.SeekCurrent) // after the header; archive/tar reads no further
		if err != nil {
			return s, err
		}
		const block = 512
		end = offset + (h.Size+block-1)/block*block
		key, extension, ok := split(h.Name)
		if h.Typeflag == tar.TypeDir || !ok {
			continue
		}
		if h.Typeflag != tar.TypeReg || sparse(h) {
			return s, fmt.Errorf("%w: %s is a link, a device or a sparse file; shards hold plain files", ErrFormat,
				h.Name)
		}
		if h.Size > s.size-offset {
			return s, fmt.Errorf("%w: %s extends past the end of the file; is the file truncated?", ErrFormat, h.Name)
		}
		if len(s.samples) == 0 || s.samples[len(s.samples)-1].key != key {
			s.samples = append(s.samples, sample{key, len(s.files)})
			clear(seen)
			weight = 0
		}
		if seen[extension] {
			return s, fmt.Errorf("%w: sample %s has two files %q", ErrFormat, key, extension)
		}
		seen[extension] = true
		if weight += h.Size; weight > o.MaxSample {
			return s, fmt.Errorf("sample %s has more than %d bytes; if that is intended, set Options.MaxSample", key,
				o.MaxSample)
		}
		s.files = append(s.files, member{extension, offset, h.Size})
	}
}

// split splits a name as WebDataset does: the extension begins at the first dot of the file's name.
// Files without one, and files whose names WebDataset reserves (__name__), belong to no sample.
func split(name string) (key, extension string, ok bool) {
	dir, base := path.Split(name)
	stem, extension, found := strings.Cut(base, ".")
	if !found || stem == "" || extension == "" || strings.HasPrefix(base, "__") && strings.HasSuffix(base, "__") {
		return "", "", false
	}
	return dir + stem, strings.ToLower(extension), true
}

// sparse reports whether a file is sparse, so that the shard does not hold its contents as they
// are.
func sparse(h *tar.Header) bool {
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return false
}

// Len returns the number of samples.
func (s *Shards) Len() int {
	if len(s.ends) == 0 {
		return 0
	}
	return s.ends[len(s.ends)-1]
}

// find returns the shard that sample i is in, and its index there.
func (s *Shards) find(i int) (*shard, int) {
	k := sort.SearchInts(s.ends, i+1)
	return &s.shards[k], i - s.ends[k] + len(s.shards[k].samples)
}

// At reads sample i.
func (s *Shards) At(i int) (Sample, error) {
	shard, at := s.find(i)
	f, err := shard.open()
	if err != nil {
		return Sample{}, err
	}
	defer f.Close()
	return shard.read(f, at)
}

// open opens a shard and makes sure that it is the one that was indexed.
func (s *shard) open() (*os.File, error) {
	f, info, err := regularfile.Open(s.path)
	if err != nil {
		return nil, fmt.Errorf("webdataset: %w", err)
	}
	if info.Size() != s.size || !info.ModTime().Equal(s.time) {
		_ = f.Close() // the first error counts
		return nil, fmt.Errorf("webdataset: %s: %w", s.path, ErrChanged)
	}
	return f, nil
}

// read reads the files of a sample.
func (s *shard) read(f io.ReaderAt, at int) (Sample, error) {
	end := len(s.files)
	if at+1 < len(s.samples) {
		end = s.samples[at+1].first
	}
	sample := Sample{Key: s.samples[at].key, Files: make(map[string][]byte)}
	for _, m := range s.files[s.samples[at].first:end] {
		content := make([]byte, m.size)
		if _, err := f.ReadAt(content, m.offset); err != nil && m.size > 0 {
			if errors.Is(err, io.EOF) {
				err = ErrChanged
			}
			return Sample{}, fmt.Errorf("webdataset: %s: %s.%s: %w", s.path, sample.Key, m.extension, err)
		}
		sample.Files[m.extension] = content
	}
	return sample, nil
}

// Describe says where sample i is.
func (s *Shards) Describe(i int) string {
	shard, at := s.find(i)
	return fmt.Sprintf("%s in %s", shard.samples[at].key, shard.path)
}

// Samples returns the samples in order, without the first skip, which are not read. It is the
// shards as a stream, the same in every pass. A sample that cannot be read from the disk is an
// error of one sample ([data.OneSample]), and the following samples are still delivered. Any other
// error ends the pass.
func (s *Shards) Samples(_, skip int) iter.Seq2[Sample, error] {
	return func(yield func(Sample, error) bool) {
		if skip < 0 {
			yield(Sample{}, fmt.Errorf("webdataset: cannot skip %d samples", skip))
			return
		}
		for i := skip; i < s.Len(); {
			shard, at := s.find(i)
			n, more := shard.each(at, yield)
			if !more {
				return
			}
			i += n
		}
	}
}

// each yields the samples from at on. It returns their number and whether the consumer wants more.
func (s *shard) each(at int, yield func(Sample, error) bool) (n int, more bool) {
	f, err := s.open()
	if err != nil {
		yield(Sample{}, err)
		return 0, false
	}
	defer f.Close()
	return s.from(f, at, yield)
}

// from is each for a shard that is already open.
func (s *shard) from(f io.ReaderAt, at int, yield func(Sample, error) bool) (n int, more bool) {
	for k := at; k < len(s.samples); k++ {
		sample, err := s.read(f, k)
		changed := errors.Is(err, ErrChanged)
		if !changed {
			err = data.OneSample(err)
		}
		if !yield(sample, err) || changed {
			return 0, false
		}
	}
	return len(s.samples) - at, true
}
