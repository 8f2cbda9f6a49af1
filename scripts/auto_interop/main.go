// Auto_interop loads a model that transformers saved, writes its logits and saves it again. It is
// the Go half of auto_interop.py, which describes how to run both.
//
//	auto_interop HEAD IN OUT
//
// HEAD is the suffix of transformers' class, such as TokenClassification. IN holds the model and
// inputs.safetensors (ids, mask), picture.png for an image model, speech.wav for a model of speech, or
// several of them; OUT gets the model and logits.safetensors.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gotrainer/gotrainer/audio"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: auto_interop HEAD IN OUT")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(head, in, out string) error {
	m, err := load(head, in)
	if err != nil {
		return err
	}
	if err := m.Save(out); err != nil {
		return err
	}
	forward, err := forward(head, m, in)
	if err != nil {
		return err
	}
	type result struct {
		Logits torch.Tensor `buffer:"logits"`
	}
	return torch.Try(func() {
		torch.SetThreads(1)
		nn.SetTraining(m, false)
		torch.NoGrad(func() {
			r := &result{forward()}
			if err := nn.Save(filepath.Join(out, "logits.safetensors"), r, nil); err != nil {
				panic(&torch.Error{Op: "Save", Msg: err.Error()})
			}
		})
	})
}

// forward returns a function that computes the logits of the inputs in the folder in.
func forward(head string, m *auto.Model, in string) (func() torch.Tensor, error) {
	if head == "ImageClassification" {
		c := &auto.ImageClassifier{Model: m}
		s, err := c.EncodeFile(filepath.Join(in, "picture.png"), 0)
		return func() torch.Tensor { return c.Forward(torch.From(s.Pixels, append([]int64{1}, s.Shape...)...)) }, err
	}
	if head == "SemanticSegmentation" {
		c := &auto.SemanticSegmenter{Model: m}
		s, err := c.EncodeFile(filepath.Join(in, "picture.png"), "")
		return func() torch.Tensor { return c.Forward(torch.From(s.Pixels, append([]int64{1}, s.Shape...)...)) }, err
	}
	if head == "ObjectDetection" {
		d := &auto.ObjectDetector{Model: m}
		s, err := d.EncodeFile(filepath.Join(in, "picture.png"), nil)
		return func() torch.Tensor {
			p := d.Predictions(torch.From(s.Pixels, append([]int64{1}, s.Shape...)...), torch.Tensor{})
			return torch.Cat([]torch.Tensor{p.Logits, p.Boxes}, -1)
		}, err
	}
	inputs, err := pretrained.OpenFile(filepath.Join(in, "inputs.safetensors"))
	if err != nil {
		return nil, err
	}
	defer inputs.Close() //nolint:errcheck // it was only read
	ids, err := inputs.Read("ids")
	if err != nil {
		return nil, err
	}
	if head == "ImageTextToText" { // the first five tokens of the first text
		reader := &auto.ImageToTextModel{Model: m}
		s, err := reader.EncodeFile(filepath.Join(in, "picture.png"), "")
		pixels := torch.From(s.Pixels, append([]int64{1}, s.Shape...)...)
		return func() torch.Tensor { return reader.ForwardPair(pixels, ids.Narrow(0, 0, 1).Narrow(1, 0, 5)) }, err
	}
	if head == "SpeechSeq2Seq" { // likewise
		listener := &auto.SpeechToTextModel{Model: m}
		s, err := listener.EncodeFile(filepath.Join(in, "speech.wav"), "")
		limits := listener.SpeechLimits()
		features := torch.From(s.Features, 1, limits.Bins, limits.Frames)
		return func() torch.Tensor { return listener.ForwardPair(features, ids.Narrow(0, 0, 1).Narrow(1, 0, 5)) }, err
	}
	if head == "CTC" || head == "AudioClassification" {
		return hears(m, head, filepath.Join(in, "speech.wav"))
	}
	mask, err := inputs.Read("mask")
	if head == "ZeroShotImageClassification" && err == nil {
		c := &auto.ZeroShotImageClassifier{Model: m}
		s, err := (&auto.ImageClassifier{Model: m}).EncodeFile(filepath.Join(in, "picture.png"), 0)
		return func() torch.Tensor {
			image := c.ImageFeatures(torch.From(s.Pixels, append([]int64{1}, s.Shape...)...))
			return c.Similarities(c.TextFeatures(ids, mask), image)
		}, err
	}
	if head == "Seq2SeqLM" { // the first five tokens of each text serve as its target
		pair := &auto.Seq2SeqLanguageModel{Model: m}
		return func() torch.Tensor { return pair.ForwardPair(ids, mask, ids.Narrow(1, 0, 5)) }, err
	}
	return func() torch.Tensor { return m.Forward(ids, mask, torch.Tensor{}) }, err
}

// hears returns the pass of a model of sound on a WAV file.
func hears(m *auto.Model, head, path string) (func() torch.Tensor, error) {
	a, err := audio.Open(path)
	if err != nil {
		return nil, err
	}
	values, err := m.WaveformExtractor.Extract(a)
	if err != nil {
		return nil, err
	}
	var lengths []int64
	if m.WaveformLimits().Masked {
		lengths = []int64{int64(len(values))}
	}
	x := torch.From(values, 1, int64(len(values)))
	if head == "CTC" {
		return func() torch.Tensor { return (&auto.CTCModel{Model: m}).Forward(x, lengths) }, nil
	}
	return func() torch.Tensor { return (&auto.AudioClassifier{Model: m}).Forward(x, lengths) }, nil
}

func load(head, dir string) (*auto.Model, error) {
	ctx := context.Background()
	switch head {
	case "SequenceClassification":
		m, err := auto.SequenceClassification(ctx, dir, auto.Options{})
		if err != nil {
			return nil, err
		}
		return m.Model, nil
	case "TokenClassification":
		m, err := auto.TokenClassification(ctx, dir, auto.Options{})
		if err != nil {
			return nil, err
		}
		return m.Model, nil
	case "QuestionAnswering":
		m, err := auto.QuestionAnswering(ctx, dir, auto.Options{})
		if err != nil {
			return nil, err
		}
		return m.Model, nil
	case "MultipleChoice":
		m, err := auto.MultipleChoice(ctx, dir, auto.Options{})
		if err != nil {
			return nil, err
		}
		return m.Model, nil
	case "MaskedLM":
		m, err := auto.MaskedLM(ctx, dir, auto.Options{})
		if err != nil {
			return nil, err
		}
		return m.Model, nil
	case "Seq2SeqLM":
		m, err := auto.Seq2SeqLM(ctx, dir, auto.Options{})
		if err != nil {
			return nil, err
		}
		return m.Model, nil
	case "ImageClassification":
		m, err := auto.ImageClassification(ctx, dir, auto.Options{})
		if err != nil {
			return nil, err
		}
		return m.Model, nil
	case "SemanticSegmentation":
		m, err := auto.SemanticSegmentation(ctx, dir, auto.Options{})
		if err != nil {
			return nil, err
		}
		return m.Model, nil
	case "ObjectDetection":
		m, err := auto.ObjectDetection(ctx, dir, auto.Options{})
		if err != nil {
			return nil, err
		}
		return m.Model, nil
	case "ZeroShotImageClassification":
		m, err := auto.ZeroShotImageClassification(ctx, dir, auto.Options{})
		if err != nil {
			return nil, err
		}
		return m.Model, nil
	case "ImageTextToText":
		m, err := auto.ImageToText(ctx, dir, auto.Options{})
		if err != nil {
			return nil, err
		}
		return m.Model, nil
	case "SpeechSeq2Seq":
		m, err := auto.SpeechToText(ctx, dir, auto.Options{})
		if err != nil {
			return nil, err
		}
		return m.Model, nil
	case "CTC":
		m, err := auto.CTC(ctx, dir, auto.Options{})
		if err != nil {
			return nil, err
		}
		return m.Model, nil
	case "AudioClassification":
		m, err := auto.AudioClassification(ctx, dir, auto.Options{})
		if err != nil {
			return nil, err
		}
		return m.Model, nil
	case "CausalLM":
		m, err := auto.CausalLM(ctx, dir, auto.Options{})
		if err != nil {
			return nil, err
		}
		return m.Model, nil
	}
	return nil, fmt.Errorf("there is no head %q", head)
}
