package main

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/vision"
)

const (
	imageHeight, imageWidth = 32, 128
	imageBatch              = 32
	imageTiny               = 20 // with -tiny, every twentieth file
)

// images reads, decodes, resizes and normalises pictures with the loader, with one worker per
// thread. It does not need libtorch.
func images(o settings) (map[string]any, error) {
	threads := o.threads
	if threads == 0 {
		threads = runtime.NumCPU()
	}
	runtime.GOMAXPROCS(threads)
	files, err := imageFiles(o)
	if err != nil {
		return nil, err
	}
	passes, batch := 3, imageBatch
	if o.tiny {
		passes = 1
	}
	if o.steps > 0 {
		passes = o.steps
	}
	if o.batch > 0 {
		batch = o.batch
	}
	loader, err := imageLoader(files, batch, threads)
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	if _, _, err := meanAndDeviation(loader, 0); err != nil { // the warm-up: loads the files into the page cache
		return nil, err
	}
	warm, first := time.Since(begin).Seconds(), sinceStart()
	begin = time.Now()
	var mean, deviation float64
	for pass := range passes {
		if mean, deviation, err = meanAndDeviation(loader, pass+1); err != nil {
			return nil, err
		}
	}
	return result{workload: o.workload, steps: passes * loader.Len(), seconds: time.Since(begin).Seconds(),
		samples: passes * len(files), firstStep: first, first: round(mean, 6), last: round(deviation, 6),
		threads: threads,
	}.line(map[string]any{"files": len(files), "workers": threads, "batch": batch,
		"first_pass_s": round(warm, 4)}), nil
}

func imageFiles(o settings) ([]string, error) {
	var files []string
	for _, pattern := range []string{"cn_plates/train/*.jpg", "captcha_v2/train/*.png", "iiit5k/train/*.png"} {
		found, err := filepath.Glob(filepath.Join(o.data, filepath.FromSlash(pattern)))
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("there is no file %s", filepath.Join(o.data, filepath.FromSlash(pattern)))
		}
		files = append(files, slices.Sorted(slices.Values(found))...)
	}
	if o.tiny {
		every := make([]string, 0, len(files)/imageTiny+1)
		for i := 0; i < len(files); i += imageTiny {
			every = append(every, files[i])
		}
		files = every
	}
	return files, nil
}

func imageLoader(files []string, batch, workers int) (*data.Loader[[]float32, []float32], error) {
	normalizer, err := vision.NewNormalizer(1, 1/255., []float64{0.5}, []float64{0.5})
	if err != nil {
		return nil, err
	}
	set := data.Map(data.Slice[string](files), func(file string) ([]float32, error) {
		image, err := vision.Open(file, vision.DecodeOptions{Gray: true})
		if err != nil {
			return nil, err
		}
		if image, err = image.Resized(imageWidth, imageHeight, vision.Bilinear); err != nil {
			return nil, err
		}
		pixels := make([]float32, imageWidth*imageHeight)
		return pixels, normalizer.Normalize(pixels, image)
	})
	collate := func(samples [][]float32) ([]float32, error) { return slices.Concat(samples...), nil }
	return data.NewLoader(set, collate, data.LoaderOptions{BatchSize: batch, Workers: workers})
}

// meanAndDeviation returns the mean and standard deviation of all pixels in a pass.
func meanAndDeviation(loader *data.Loader[[]float32, []float32], epoch int) (mean, deviation float64, err error) {
	var sums, squares [4]float64 // independent lanes, to avoid a dependency chain
	n := 0
	for batch, err := range loader.Epoch(context.Background(), epoch, 0) {
		if err != nil {
			return 0, 0, err
		}
		for four := range slices.Chunk(batch, len(sums)) {
			for i, v := range four {
				sums[i] += float64(v)
				squares[i] += float64(v * v)
			}
		}
		n += len(batch)
	}
	total := func(lanes [4]float64) float64 { return lanes[0] + lanes[1] + lanes[2] + lanes[3] }
	mean = total(sums) / float64(n)
	return mean, math.Sqrt(total(squares)/float64(n) - mean*mean), nil
}
