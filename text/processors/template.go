package processors

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/text/encodings"
	"github.com/gotrainer/gotrainer/text/internal/tagged"
)

// Piece is an element of a template: a text of the input or a special token.
type Piece struct {
	Sequence string // "A" or "B"; empty for a special token
	Special  string // the name of a special token
	TypeID   int64
}

// TemplateProcessing arranges texts and special tokens by a template. Make one with
// [NewTemplateProcessing].
type TemplateProcessing struct {
	single, pair []Piece
	special      map[string]templateToken
}

// templateToken is what a name in a template stands for: one or more tokens.
type templateToken struct {
	ID     string   `json:"id"`
	IDs    []int64  `json:"ids"`
	Tokens []string `json:"tokens"`
}

// NewTemplateProcessing makes a post-processor from templates such as "[CLS]:0 $A:0 [SEP]:0" and
// "[CLS] $A [SEP] $B:1 [SEP]:1". $A and $B are the texts, other words are special tokens, and the
// number after a colon is the type (0 without one).
func NewTemplateProcessing(single, pair string, special ...SpecialToken) (*TemplateProcessing, error) {
	p := &TemplateProcessing{special: map[string]templateToken{}}
	for _, t := range special {
		p.special[t.Token] = templateToken{t.Token, []int64{t.ID}, []string{t.Token}}
	}
	var err error
	if p.single, err = parseTemplate(single); err != nil {
		return nil, err
	}
	if p.pair, err = parseTemplate(pair); err != nil {
		return nil, err
	}
	return p, p.check(true)
}

func parseTemplate(template string) ([]Piece, error) {
	var pieces []Piece
	for word := range strings.SplitSeq(template, " ") {
		name, number, typed := strings.Cut(word, ":")
		piece := Piece{Special: name}
		if rest, ok := strings.CutPrefix(name, "$"); ok {
			piece = Piece{Sequence: "A"}
			switch rest {
			case "", "A", "a":
			case "B", "b":
				piece.Sequence = "B"
			default:
				id, err := strconv.ParseUint(rest, 10, 32)
				if err != nil {
					return nil, fmt.Errorf("template %q: %q is no text; want $A, $B or $ and a type", template, word)
				}
				piece.TypeID = int64(id)
			}
		}
		if typed {
			id, err := strconv.ParseUint(number, 10, 32)
			if err != nil {
				return nil, fmt.Errorf("template %q: the type in %q is no number", template, word)
			}
			piece.TypeID = int64(id)
		}
		pieces = append(pieces, piece)
	}
	return pieces, nil
}

// check checks that the templates name only texts and special tokens that exist, and if both is
// set, that the template for pairs uses both texts.
func (p *TemplateProcessing) check(both bool) error {
	hasA, hasB := false, false
	for i, pieces := range [][]Piece{p.single, p.pair} {
		for _, piece := range pieces {
			switch piece.Sequence {
			case "A":
				hasA = hasA || i == 1
			case "B":
				if i == 0 {
					return fmt.Errorf("the template for one text has $B in it")
				}
				hasB = true
			case "":
				if _, ok := p.special[piece.Special]; !ok {
					return fmt.Errorf("the template needs the special token %q, which is not in special_tokens",
						piece.Special)
				}
			default:
				return fmt.Errorf("the template has a sequence %q; want A or B", piece.Sequence)
			}
		}
	}
	if both && (!hasA || !hasB) {
		return fmt.Errorf("the template for pairs must use both texts, $A and $B")
	}
	for name, t := range p.special {
		if len(t.IDs) != len(t.Tokens) {
			return fmt.Errorf("special token %q has %d ids and %d tokens; want as many", name, len(t.IDs),
				len(t.Tokens))
		}
	}
	return nil
}

// AddedTokens returns the number of special tokens in the template.
func (p *TemplateProcessing) AddedTokens(isPair bool) int {
	pieces := p.single
	if isPair {
		pieces = p.pair
	}
	n := 0
	for _, piece := range pieces {
		if piece.Sequence == "" {
			n += len(p.special[piece.Special].IDs)
		}
	}
	return n
}

// Process arranges the texts and tokens.
func (p *TemplateProcessing) Process(parts []*encodings.Encoding, addSpecialTokens bool) ([]*encodings.Encoding,
	error) {
	pieces := p.single
	switch len(parts) {
	case 1:
	case 2:
		pieces = p.pair
	default:
		return nil, fmt.Errorf("TemplateProcessing of %d texts; want 1 or 2: it cannot follow a post-processor that "+
			"adds tokens", len(parts))
	}
	out := make([]*encodings.Encoding, 0, len(pieces))
	used := [2]bool{}
	for _, piece := range pieces {
		if piece.Sequence == "" {
			if addSpecialTokens {
				t := p.special[piece.Special]
				e := encodings.New(len(t.IDs))
				for i, id := range t.IDs {
					e.AppendSpecial(id, piece.TypeID, t.Tokens[i])
				}
				out = append(out, e)
			}
			continue
		}
		i := 0
		if piece.Sequence == "B" {
			i = 1
		}
		part := parts[i]
		if used[i] { // a template may use a text twice, with different types
			overflowing := part.Overflowing
			part = part.Clone()
			part.Overflowing = overflowing
		}
		used[i] = true
		part.SetTypeID(piece.TypeID)
		part.SetSequence(i)
		out = append(out, part)
	}
	return out, nil
}

// Single returns the pieces of the template for one text.
func (p *TemplateProcessing) Single() []Piece { return p.single }

// Pair returns the pieces of the template for two texts.
func (p *TemplateProcessing) Pair() []Piece { return p.pair }

// IDs returns the ids of a special token of the templates.
func (p *TemplateProcessing) IDs(special string) []int64 { return p.special[special].IDs }

type pieceJSON struct {
	Sequence *pieceBody `json:"Sequence,omitempty"`
	Special  *pieceBody `json:"SpecialToken,omitempty"`
}

type pieceBody struct {
	ID     string `json:"id"`
	TypeID int64  `json:"type_id"`
}

// MarshalJSON writes the piece as it is in tokenizer.json.
func (p Piece) MarshalJSON() ([]byte, error) {
	if p.Sequence != "" {
		return json.Marshal(pieceJSON{Sequence: &pieceBody{p.Sequence, p.TypeID}})
	}
	return json.Marshal(pieceJSON{Special: &pieceBody{p.Special, p.TypeID}})
}

// UnmarshalJSON reads the piece as it is in tokenizer.json.
func (p *Piece) UnmarshalJSON(data []byte) error {
	var in pieceJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	switch {
	case in.Sequence != nil && in.Special == nil && in.Sequence.ID != "":
		*p = Piece{Sequence: in.Sequence.ID, TypeID: in.Sequence.TypeID}
	case in.Special != nil && in.Sequence == nil:
		*p = Piece{Special: in.Special.ID, TypeID: in.Special.TypeID}
	default:
		return fmt.Errorf(`a piece of a template is %.60s; want one of the fields "Sequence" and "SpecialToken"`, data)
	}
	return nil
}

type templateJSON struct {
	Single  []Piece                  `json:"single"`
	Pair    []Piece                  `json:"pair"`
	Special map[string]templateToken `json:"special_tokens"`
}

// MarshalJSON writes the type, the templates and the special tokens.
func (p *TemplateProcessing) MarshalJSON() ([]byte, error) {
	return tagged.Marshal("TemplateProcessing", templateJSON{p.single, p.pair, p.special})
}

func parseTemplateProcessing(raw json.RawMessage) (*TemplateProcessing, error) {
	f, err := tagged.Decode[templateJSON](raw, "single", "pair", "special_tokens")
	if err != nil {
		return nil, err
	}
	p := &TemplateProcessing{f.Single, f.Pair, f.Special}
	return p, p.check(false)
}
