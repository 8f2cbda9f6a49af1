package audio

import (
	"errors"
	"fmt"
	"io"

	"github.com/mewkiz/flac"
	"github.com/mewkiz/flac/frame"
)

// flacName is how a FLAC file begins, unless a tag comes before.
const flacName = "fLaC"

// DecodeFLAC reads FLAC of 4 to 32 bits, in up to eight channels, whose mean it takes. The samples
// are those of libsndfile. A file that ends early, or whose checksums are wrong, is an error. Silence
// takes few bytes, so that a small file may be long sound.
func DecodeFLAC(r io.Reader) (*Audio, error) {
	a, err := decodeFLAC(r)
	return decoded("FLAC", a, err)
}

func decodeFLAC(r io.Reader) (a *Audio, err error) {
	defer func() { // the library must not end a program because of a damaged file
		if p := recover(); p != nil {
			a, err = nil, fmt.Errorf("the file is damaged: %v", p)
		}
	}()
	stream, err := flac.New(r)
	if err != nil {
		return nil, err
	}
	info := stream.Info
	if info.SampleRate < 1 || info.SampleRate > maxRate {
		return nil, fmt.Errorf("the rate is %d samples in a second; want 1 to %d", info.SampleRate, maxRate)
	}
	a = &Audio{Rate: int(info.SampleRate)}
	for {
		f, err := stream.ParseNext()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("sample %d: %w", len(a.Samples), err)
		}
		if int(f.BitsPerSample) != int(info.BitsPerSample) || len(f.Subframes) != int(info.NChannels) {
			return nil, fmt.Errorf("sample %d: a frame of %d channels of %d bits; the file begins as one of %d channels of %d",
				len(a.Samples), len(f.Subframes), f.BitsPerSample, info.NChannels, info.BitsPerSample)
		}
		a.Samples = appendMeans(a.Samples, f)
	}
	if n := uint64(len(a.Samples)); info.NSamples > 0 && n != info.NSamples {
		return nil, fmt.Errorf("there are %d samples, and the file says %d", n, info.NSamples)
	}
	return a, nil
}

// appendMeans appends the means of the channels of a frame, from -1 to 1.
func appendMeans(to []float32, f *frame.Frame) []float32 {
	full := float32(uint64(1) << (f.BitsPerSample - 1))
	for i := range int(f.BlockSize) {
		var sum float32
		for _, channel := range f.Subframes {
			sum += float32(channel.Samples[i]) / full
		}
		to = append(to, sum/float32(len(f.Subframes)))
	}
	return to
}
