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
	"github.com/gotrainer/gotrainer/models/lora"
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
	if m.LlavaProcessor != nil { // the first text, after the image
		answers := &auto.ImageTextToTextModel{Model: m}
		token := torch.From([]int64{answers.ImageTokens().ID}, 1, 1).Repeat(1, int64(answers.ImageTokens().PerImage))
		s, err := (&auto.ImageClassifier{Model: m}).EncodeFile(filepath.Join(in, "picture.png"), 0)
		pixels := torch.From(s.Pixels, append([]int64{1}, s.Shape...)...)
		return func() torch.Tensor {
			text := torch.Cat([]torch.Tensor{token, ids.Narrow(0, 0, 1)}, 1)
			return answers.ForwardImages(text, torch.Tensor{}, pixels)
		}, err
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

// loaders read a model, by head.
var loaders = map[string]func(dir string) (*auto.Model, error){
	"SequenceClassification": loader(auto.SequenceClassification,
		func(m *auto.SequenceClassifier) *auto.Model { return m.Model }),
	"TokenClassification": loader(auto.TokenClassification,
		func(m *auto.TokenClassifier) *auto.Model { return m.Model }),
	"QuestionAnswering": loader(auto.QuestionAnswering,
		func(m *auto.QuestionAnswerer) *auto.Model { return m.Model }),
	"MultipleChoice": loader(auto.MultipleChoice, func(m *auto.MultipleChoiceModel) *auto.Model { return m.Model }),
	"MaskedLM":       loader(auto.MaskedLM, func(m *auto.MaskedLanguageModel) *auto.Model { return m.Model }),
	"Seq2SeqLM":      loader(auto.Seq2SeqLM, func(m *auto.Seq2SeqLanguageModel) *auto.Model { return m.Model }),
	"CausalLM":       loader(auto.CausalLM, func(m *auto.CausalLanguageModel) *auto.Model { return m.Model }),
	"ImageClassification": loader(auto.ImageClassification,
		func(m *auto.ImageClassifier) *auto.Model { return m.Model }),
	"SemanticSegmentation": loader(auto.SemanticSegmentation,
		func(m *auto.SemanticSegmenter) *auto.Model { return m.Model }),
	"ObjectDetection": loader(auto.ObjectDetection, func(m *auto.ObjectDetector) *auto.Model { return m.Model }),
	"ZeroShotImageClassification": loader(auto.ZeroShotImageClassification,
		func(m *auto.ZeroShotImageClassifier) *auto.Model { return m.Model }),
	"ImageTextToText": imageTextToText,
	"SpeechSeq2Seq":   loader(auto.SpeechToText, func(m *auto.SpeechToTextModel) *auto.Model { return m.Model }),
	"CTC":             loader(auto.CTC, func(m *auto.CTCModel) *auto.Model { return m.Model }),
	"AudioClassification": loader(auto.AudioClassification,
		func(m *auto.AudioClassifier) *auto.Model { return m.Model }),
}

func loader[M any](load func(context.Context, string, auto.Options) (M, error), model func(M) *auto.Model,
) func(dir string) (*auto.Model, error) {
	return func(dir string) (*auto.Model, error) {
		m, err := load(context.Background(), dir, auto.Options{})
		if err != nil {
			return nil, err
		}
		return model(m), nil
	}
}

// imageTextToText reads a LLaVA or a TrOCR.
func imageTextToText(dir string) (*auto.Model, error) {
	d, err := pretrained.ReadConfig(dir)
	if adapted, e := lora.ReadConfig(dir); e == nil {
		d, err = pretrained.ReadConfig(adapted.BaseModel)
	}
	if err != nil {
		return nil, err
	}
	if string(d["model_type"]) == `"llava"` {
		return loader(auto.ImageTextToText, func(m *auto.ImageTextToTextModel) *auto.Model { return m.Model })(dir)
	}
	return loader(auto.ImageToText, func(m *auto.ImageToTextModel) *auto.Model { return m.Model })(dir)
}

func load(head, dir string) (*auto.Model, error) {
	load, ok := loaders[head]
	if !ok {
		return nil, fmt.Errorf("there is no head %q", head)
	}
	return load(dir)
}
