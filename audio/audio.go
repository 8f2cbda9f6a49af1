package audio

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/gotrainer/gotrainer/internal/regularfile"
)

// Audio is sound of one channel.
type Audio struct {
	Samples []float32 // from -1 to 1
	Rate    int       // samples in a second
}

// Open reads a WAV or FLAC file: [Decode].
func Open(path string) (*Audio, error) {
	f, _, err := regularfile.Open(path)
	if err != nil {
		return nil, fmt.Errorf("audio: %w", err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	a, err := Decode(f)
	if err != nil {
		return nil, fmt.Errorf("%w (%s)", err, path)
	}
	return a, nil
}

// Decode reads WAV ([DecodeWAV]) or FLAC ([DecodeFLAC]), whichever the sound begins as.
func Decode(r io.Reader) (*Audio, error) {
	in := bufio.NewReaderSize(r, 1<<16)
	start, err := in.Peek(12)
	if len(start) == 0 && err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("audio: %w", err)
	}
	switch {
	case bytes.HasPrefix(start, []byte("RIFF")):
		return DecodeWAV(in)
	case bytes.HasPrefix(start, []byte(flacName)):
		return DecodeFLAC(in)
	}
	return nil, fmt.Errorf("audio: the sound begins with %q; want WAV (RIFF) or FLAC (%s). Other formats can be "+
		"converted, for example by ffmpeg -i FILE -ar 16000 -ac 1 FILE.wav", start, flacName)
}

// decoded is what a decoder of a format returns.
func decoded(format string, a *Audio, err error) (*Audio, error) {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		err = errors.New("the file ends early")
	}
	if err != nil {
		return nil, fmt.Errorf("audio: %s: %w", format, err)
	}
	return a, nil
}

// maxRate is far above the rate of any microphone.
const maxRate = 1 << 20

// Duration is how long the sound is.
func (a *Audio) Duration() time.Duration {
	return time.Duration(float64(len(a.Samples)) / float64(a.Rate) * float64(time.Second))
}

// check returns an error for a rate that cannot be.
func (a *Audio) check() error {
	if a == nil || a.Rate < 1 || a.Rate > maxRate {
		rate := 0
		if a != nil {
			rate = a.Rate
		}
		return fmt.Errorf("audio: the rate is %d samples in a second; want 1 to %d", rate, maxRate)
	}
	return nil
}
