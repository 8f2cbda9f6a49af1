package callback

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"math"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// EventWriter writes a TensorBoard event file. It does what torch.utils.tensorboard.SummaryWriter
// does for numbers, texts and histograms. Its methods may be called by one goroutine at a time.
// After an error, every later call returns the same error, and the file ends with its last complete
// event.
type EventWriter struct {
	file *os.File
	out  *bufio.Writer
	now  func() time.Time
	err  error
}

// eventFiles counts the files of this process, so that two created in the same second have
// different names.
var eventFiles atomic.Int64

// NewEventWriter creates a new file in dir, and dir itself if necessary. The file is named as by
// SummaryWriter: events.out.tfevents.SECONDS.HOST.PROCESS.NUMBER.
func NewEventWriter(dir string) (*EventWriter, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("tensorboard: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	name := fmt.Sprintf("events.out.tfevents.%010d.%s.%d.%d", time.Now().Unix(), host, os.Getpid(), eventFiles.Add(1)-1)
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if err != nil {
		return nil, fmt.Errorf("tensorboard: %w", err)
	}
	w := &EventWriter{file: f, out: bufio.NewWriter(f), now: time.Now}
	w.event(0, appendString(nil, fieldFileVersion, "brain.Event:2"))
	return w, w.Flush()
}

// Name returns the path of the file.
func (w *EventWriter) Name() string { return w.file.Name() }

// Field numbers of Event, Summary, Summary.Value and TensorProto in TensorFlow's protocol buffers.
const (
	fieldWallTime    = 1
	fieldStep        = 2
	fieldFileVersion = 3
	fieldSummary     = 5
	fieldValue       = 1
	fieldTag         = 1
	fieldSimpleValue = 2
	fieldHistogram   = 5
	fieldTensor      = 8
	fieldMetadata    = 9
)

// AddScalar writes a number under a tag: add_scalar. TensorBoard stores it as float32.
func (w *EventWriter) AddScalar(tag string, value float64, step int) error {
	v := appendString(nil, fieldTag, tag)
	v = protowire.AppendTag(v, fieldSimpleValue, protowire.Fixed32Type)
	return w.value(step, protowire.AppendFixed32(v, math.Float32bits(float32(value))))
}

// AddText writes a text, which TensorBoard shows as Markdown: add_text.
func (w *EventWriter) AddText(tag, text string, step int) error {
	v := appendString(nil, fieldTag, tag+"/text_summary")
	v = appendMessage(v, fieldTensor, textTensor(text))
	// plugin_data.plugin_name
	return w.value(step, appendMessage(v, fieldMetadata, appendMessage(nil, 1, appendString(nil, 1, "text"))))
}

// value writes an event with a Summary of one value.
func (w *EventWriter) value(step int, v []byte) error {
	w.event(step, appendMessage(nil, fieldSummary, appendMessage(nil, fieldValue, v)))
	return w.err
}

// textTensor returns a TensorProto of one string: dtype DT_STRING, shape [1].
func textTensor(text string) []byte {
	const stringType = 7
	size := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1)
	var t []byte
	t = protowire.AppendVarint(protowire.AppendTag(t, 1, protowire.VarintType), stringType)
	t = appendMessage(t, 2, appendMessage(nil, 2, size))
	return appendString(t, 8, text)
}

func appendString(b []byte, field protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), s)
}

func appendMessage(b []byte, field protowire.Number, m []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), m)
}

// event writes an event in the framing of TFRecord: length, its checksum, data, their checksum.
func (w *EventWriter) event(step int, fields []byte) {
	if w.err != nil {
		return
	}
	now := w.now()
	b := protowire.AppendTag(nil, fieldWallTime, protowire.Fixed64Type)
	b = protowire.AppendFixed64(b, math.Float64bits(float64(now.Unix())+float64(now.Nanosecond())/1e9))
	if step != 0 {
		b = protowire.AppendVarint(protowire.AppendTag(b, fieldStep, protowire.VarintType), uint64(int64(step)))
	}
	b = append(b, fields...)
	var head [12]byte
	binary.LittleEndian.PutUint64(head[:8], uint64(len(b)))
	binary.LittleEndian.PutUint32(head[8:], maskedSum(head[:8]))
	b = binary.LittleEndian.AppendUint32(b, maskedSum(b))
	_, err := w.out.Write(append(head[:], b...))
	w.fail(err)
}

func (w *EventWriter) fail(err error) {
	if w.err == nil && err != nil {
		w.err = fmt.Errorf("tensorboard: %w", err)
	}
}

// Flush passes what has been written to the operating system, so that TensorBoard can see it.
func (w *EventWriter) Flush() error {
	if w.err == nil {
		w.fail(w.out.Flush())
	}
	return w.err
}

// Close flushes and closes the file. A second Close does nothing.
func (w *EventWriter) Close() error {
	err := w.Flush()
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	w.fail(w.file.Close())
	err, w.err = w.err, os.ErrClosed
	return err
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// maskedSum is the CRC32C of TFRecord files: rotated and shifted, since the CRC of data that
// contain CRCs is problematic.
func maskedSum(b []byte) uint32 {
	sum := crc32.Checksum(b, castagnoli)
	return (sum>>15 | sum<<17) + 0xa282ead8
}

// Event is one number, text or histogram in an event file.
type Event struct {
	Time      time.Time
	Step      int
	Tag       string
	Value     float64    // of a scalar
	Text      string     // of a text
	Histogram *Histogram // nil if the event is not a histogram
}

// maxEvent limits the memory that a damaged length can request.
const maxEvent = 64 << 20

// ReadEvents reads the numbers, texts and histograms of an event file, up to its end or to the
// first incomplete event: a run may still be writing the file, or have been killed while writing.
// In that case, and if a checksum does not match, the error says at which byte, and the events
// before it are returned as well. Summaries of other kinds, such as images, are left out.
func ReadEvents(r io.Reader) ([]Event, error) {
	in := bufio.NewReader(r)
	var events []Event
	for at := int64(0); ; {
		var head [12]byte
		if n, err := io.ReadFull(in, head[:]); errors.Is(err, io.EOF) && n == 0 {
			return events, nil
		} else if err != nil {
			return events, fmt.Errorf("tensorboard: byte %d: the length of an event: %w", at, err)
		}
		size := binary.LittleEndian.Uint64(head[:8])
		if got, want := maskedSum(head[:8]), binary.LittleEndian.Uint32(head[8:]); got != want || size > maxEvent {
			return events, fmt.Errorf("tensorboard: byte %d: no event begins here: its length is %d with the sum "+
				"%08x, want %08x", at, size, got, want)
		}
		data, err := io.ReadAll(io.LimitReader(in, int64(size)+4))
		if err == nil && len(data) < int(size)+4 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return events, fmt.Errorf("tensorboard: byte %d: an event of %d bytes: %w", at, size, err)
		}
		data, sum := data[:size], binary.LittleEndian.Uint32(data[size:])
		if got := maskedSum(data); got != sum {
			return events, fmt.Errorf("tensorboard: byte %d: the event has the sum %08x, want %08x: it is damaged", at, got, sum)
		}
		e, err := parseEvent(data)
		if err != nil {
			return events, fmt.Errorf("tensorboard: byte %d: %w", at, err)
		}
		events = append(events, e...)
		at += int64(size) + 16
	}
}

func parseEvent(b []byte) (events []Event, err error) {
	var common Event
	var values [][]byte
	for f := range fields(b, &err) {
		switch f.number {
		case fieldWallTime:
			seconds := math.Float64frombits(f.v)
			if whole := math.Floor(seconds); math.Abs(whole) < 1<<40 {
				common.Time = time.Unix(int64(whole), int64((seconds-whole)*1e9))
			}
		case fieldStep:
			common.Step = int(int64(f.v))
		case fieldSummary:
			for f := range fields(f.data, &err) {
				if f.number == fieldValue {
					values = append(values, f.data)
				}
			}
		}
	}
	for _, value := range values {
		e, known := common, false
		for f := range fields(value, &err) {
			switch f.number {
			case fieldTag:
				e.Tag = string(f.data)
			case fieldSimpleValue:
				e.Value, known = float64(math.Float32frombits(uint32(f.v))), true
			case fieldHistogram:
				e.Histogram, known = histogramOf(fields(f.data, &err)), true
			case fieldTensor:
				for f := range fields(f.data, &err) {
					if f.number == 8 {
						e.Text, known = string(f.data), true
					}
				}
			}
		}
		if known {
			events = append(events, e)
		}
	}
	return events, err
}

// field is a field of a message: v for numbers, data for all others.
type field struct {
	number protowire.Number
	v      uint64
	data   []byte
}

// fields iterates over the fields of a message. It stops at the first error, which it keeps.
func fields(b []byte, failed *error) iter.Seq[field] {
	return func(yield func(field) bool) {
		for len(b) > 0 && *failed == nil {
			number, kind, n := protowire.ConsumeTag(b)
			f := field{number: number}
			if n >= 0 {
				b = b[n:]
				switch kind {
				case protowire.VarintType:
					f.v, n = protowire.ConsumeVarint(b)
				case protowire.Fixed32Type:
					var v uint32
					v, n = protowire.ConsumeFixed32(b)
					f.v = uint64(v)
				case protowire.Fixed64Type:
					f.v, n = protowire.ConsumeFixed64(b)
				case protowire.BytesType:
					f.data, n = protowire.ConsumeBytes(b)
				default:
					n = protowire.ConsumeFieldValue(number, kind, b)
				}
			}
			if n < 0 {
				*failed = protowire.ParseError(n)
				return
			}
			if b = b[n:]; !yield(f) {
				return
			}
		}
	}
}
