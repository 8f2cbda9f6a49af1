package llava

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"unicode/utf8"

	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/text"
)

// Processor is what LlavaProcessor has in processor_config.json besides its image processor: how
// many image tokens an image becomes in a text.
type Processor struct {
	PatchSize                   int64          // height and width of a patch, in pixels
	NumAdditionalImageTokens    int64          // tokens of the vision tower besides patches: 1 for CLIP
	VisionFeatureSelectStrategy SelectStrategy // with SelectDefault, one token is left out
	ImageToken                  string         // stands for an image in a text; empty: <image>

	// Extra has the other settings of the file. They are written back.
	Extra pretrained.Document
}

// ProcessorName is the file with the settings of a [Processor].
const ProcessorName = "processor_config.json"

// defaultImageToken is that of LlavaProcessor.
const defaultImageToken = "<image>"

func (p *Processor) fields() []pretrained.Field {
	return []pretrained.Field{{Key: "patch_size", Value: &p.PatchSize},
		{Key: "num_additional_image_tokens", Value: &p.NumAdditionalImageTokens},
		{Key: "vision_feature_select_strategy", Value: &p.VisionFeatureSelectStrategy},
		{Key: "image_token", Value: &p.ImageToken}}
}

// Processor is the processor of a model: that with the settings of its config.
func (c Config) Processor() (Processor, error) {
	c, err := c.resolved()
	return Processor{PatchSize: c.Vision.PatchSize, NumAdditionalImageTokens: 1,
		VisionFeatureSelectStrategy: c.VisionFeatureSelectStrategy, ImageToken: defaultImageToken}, err
}

// ProcessorOf is [Config.Processor] of a config.json.
func ProcessorOf(d pretrained.Document) (Processor, error) {
	c, err := decode(d)
	if err != nil {
		return Processor{}, err
	}
	return c.Processor()
}

// UnmarshalJSON reads processor_config.json. What the file lacks, as older ones do, keeps its
// value.
func (p *Processor) UnmarshalJSON(content []byte) error {
	d, err := pretrained.ParseConfig(content)
	if err != nil {
		return err
	}
	if err := d.Demand("processor_class", `"LlavaProcessor"`); err != nil {
		return err
	}
	if err := d.Decode(p.fields()); err != nil {
		return err
	}
	p.Extra = d
	return p.check()
}

// MarshalJSON writes processor_config.json.
func (p Processor) MarshalJSON() ([]byte, error) {
	d := pretrained.Document{}
	maps.Copy(d, p.Extra)
	d["processor_class"] = json.RawMessage(`"LlavaProcessor"`)
	p.ImageToken = p.Token()
	if err := d.Encode(p.fields()); err != nil {
		return nil, err
	}
	return json.Marshal(d)
}

func (p *Processor) check() error {
	switch s := p.VisionFeatureSelectStrategy; {
	case p.PatchSize < 1:
		return fmt.Errorf("patch_size is %d; want a positive number", p.PatchSize)
	case p.NumAdditionalImageTokens < 0:
		return fmt.Errorf("num_additional_image_tokens is %d; want at least 0", p.NumAdditionalImageTokens)
	case s != SelectDefault && s != SelectFull:
		return fmt.Errorf("vision_feature_select_strategy is %q; want %q or %q", s, SelectDefault, SelectFull)
	}
	return nil
}

// Token is ImageToken, or its default.
func (p Processor) Token() string { return cmp.Or(p.ImageToken, defaultImageToken) }

// NumImageTokens is the number of tokens of a prepared image of that height and width, in pixels.
func (p Processor) NumImageTokens(height, width int64) int64 {
	n := (height/p.PatchSize)*(width/p.PatchSize) + p.NumAdditionalImageTokens
	if p.VisionFeatureSelectStrategy == SelectDefault {
		n--
	}
	return n
}

// Expand replaces each image token of a text by as many as its image has: counts has their numbers.
// It also moves the spans, which are sorted and count characters, to where they are in the result.
// It is an error if the text has not as many image tokens as there are images.
func (p Processor) Expand(s string, counts []int64, spans []text.Span) (string, []text.Span, error) {
	token := p.Token()
	parts := strings.Split(s, token)
	if len(parts)-1 != len(counts) {
		return "", nil, fmt.Errorf("llava: the text has %d image tokens, %s, and there are %d images; want one for each",
			len(parts)-1, token, len(counts))
	}
	var b strings.Builder
	b.WriteString(parts[0])
	length, at := utf8.RuneCountInString(token), utf8.RuneCountInString(parts[0])
	shifts := make([][2]int, len(counts)) // the end of each token in s, and by how much what follows moves
	moved := 0
	for i, n := range counts {
		if n < 1 {
			return "", nil, errors.New("llava: an image has no tokens; want images of at least a patch")
		}
		b.WriteString(strings.Repeat(token, int(n)))
		b.WriteString(parts[i+1])
		at += length
		moved += int(n-1) * length
		shifts[i] = [2]int{at, moved}
		at += utf8.RuneCountInString(parts[i+1])
	}
	place := func(at int) int {
		by := 0
		for _, s := range shifts {
			if s[0] <= at {
				by = s[1]
			}
		}
		return at + by
	}
	out := make([]text.Span, len(spans))
	for i, span := range spans {
		out[i] = text.Span{Start: place(span.Start), End: place(span.End)}
	}
	return b.String(), out, nil
}
