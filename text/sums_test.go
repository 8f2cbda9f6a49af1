package text

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/text/models"
	"github.com/gotrainer/gotrainer/text/normalizers"
	"github.com/gotrainer/gotrainer/text/pretokenizers"
	"github.com/gotrainer/gotrainer/text/processors"
)

// sumsFile is the content of testdata/sums.json, written by testdata/sums.py.
type sumsFile struct {
	Components map[string]struct {
		Pipeline struct {
			Normalizer   json.RawMessage `json:"normalizer"`
			PreTokenizer json.RawMessage `json:"pre_tokenizer"`
		} `json:"pipeline"`
		Random, Points []string
	}
	Data map[string]map[string][]string
}

func readSums(t *testing.T) sumsFile {
	t.Helper()
	data, err := os.ReadFile("testdata/sums.json")
	if err != nil {
		t.Fatal(err)
	}
	var f sumsFile
	if err := json.Unmarshal(data, &f); err != nil {
		t.Fatal(err)
	}
	return f
}

// ranges are the code points that random texts are drawn from, as in sums.py.
var ranges = [][2]uint64{
	{0x20, 0x7E}, {0x61, 0x7A}, {0x41, 0x5A}, {0x20, 0x20}, {0x09, 0x0D}, {0x00, 0x1F}, {0x7F, 0xFF}, {0xC0, 0x24F},
	{0x300, 0x36F}, {0x370, 0x3FF},
	{0x400, 0x4FF}, {0x590, 0x5FF}, {0x600, 0x6FF}, {0x600, 0x6FF}, {0x6F0, 0x6F9}, {0x900, 0x97F}, {0xE00, 0xE7F},
	{0x1100, 0x11FF}, {0x1680, 0x18AF},
	{0x1AB0, 0x1AFF}, {0x1DC0, 0x1DFF}, {0x1E00, 0x1EFF}, {0x1F00, 0x1FFF}, {0x2000, 0x206F}, {0x20D0, 0x20F0},
	{0x2100, 0x218F}, {0x3000, 0x30FF},
	{0x4E00, 0x9FFF}, {0xAC00, 0xD7A3}, {0xA600, 0xABFF}, {0xF900, 0xFAFF}, {0xFB1D, 0xFDFF}, {0xFE00, 0xFE6F},
	{0xFF00, 0xFFFF}, {0x10000, 0x1FFFF},
	{0x1D100, 0x1D1FF}, {0x1F300, 0x1FAFF}, {0x20000, 0x2FFFF}, {0xE0000, 0xE01EF}, {0x0, 0x10FFFF},
}

// randomTexts draws the same texts as sums.py.
func randomTexts(n int, state uint64) []string {
	draw := func(k int) uint64 {
		state = state*6364136223846793005 + 1442695040888963407
		return (state >> 33) % uint64(k)
	}
	texts := make([]string, n)
	for i := range texts {
		var b strings.Builder
		for range draw(24) {
			if draw(40) == 0 {
				b.WriteString("[MASK]")
				continue
			}
			r := ranges[draw(len(ranges))]
			for range 1 + draw(3) {
				c := rune(r[0] + draw(int(r[1]-r[0]+1)))
				if c < 0xD800 || c > 0xDFFF {
					b.WriteRune(c)
				}
			}
		}
		texts[i] = b.String()
	}
	return texts
}

func codePoints() []string {
	var texts []string
	for first := rune(0); first <= 0x10FFFF; first += 32 {
		if first >= 0xD800 && first <= 0xDFFF {
			continue
		}
		var b strings.Builder
		for r := first; r < first+32; r++ {
			b.WriteString("a" + string(r) + "B")
		}
		texts = append(texts, b.String())
	}
	return texts
}

// compare compares the checksums of blocks of texts with the reference's.
func compare(t *testing.T, name string, texts []string, block int, want []string, of func(string) []byte) {
	t.Helper()
	if n := (len(texts) + block - 1) / block; n != len(want) {
		t.Fatalf("%s: %d blocks of texts, the reference has %d", name, n, len(want))
	}
	for i := 0; i < len(want); i += blocksOfASweep {
		h := sha256.New()
		for _, text := range texts[i*block : min((i+1)*block, len(texts))] {
			b := of(text)
			h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(b))))
			h.Write(b)
		}
		if got := hex.EncodeToString(h.Sum(nil)[:8]); got != want[i] {
			t.Errorf("%s: texts %d to %d differ from the reference", name, i*block, min((i+1)*block, len(texts))-1)
		}
	}
}

// compareCodePoints compares every code point of the planes in use. A block is about a plane of
// Unicode; planes 4 to 13 are empty, and the tests of whole tokenizers cover them too.
func compareCodePoints(t *testing.T, points, want []string, of func(string) []byte) {
	t.Helper()
	if testing.Short() {
		return // all of them through all components take 15 seconds
	}
	const block = 0x800
	compare(t, "code points of planes 0 to 3", points[:4*block], block, want[:4], of)
	compare(t, "code points of planes 14 and 15", points[13*block:15*block], block, want[13:15], of)
}

func number(b []byte, n int) []byte { return binary.LittleEndian.AppendUint64(b, uint64(int64(n))) }

// splits returns the pieces of a pipeline as bytes, as sums.py does.
func splits(n normalizers.Normalizer, p pretokenizers.PreTokenizer) func(string) []byte {
	return func(text string) []byte {
		s := normalizers.NewString(text)
		if n != nil {
			n.Normalize(&s)
		}
		var out []byte
		chars := charCounter(text)
		for _, piece := range p.PreTokenize(s) {
			if piece.Text() == "" {
				continue
			}
			span := chars(piece.Original(0, len(piece.Text())))
			out = number(number(append(out, piece.Text()...), span.Start), span.End)
		}
		return out
	}
}

func TestComponentsCutAndNormalizeAsTheReference(t *testing.T) {
	random, points := randomTexts(20000, 1), codePoints()
	for name, c := range readSums(t).Components {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, err := normalizers.Parse(c.Pipeline.Normalizer)
			if err != nil {
				t.Fatal(err)
			}
			p, err := pretokenizers.Parse(c.Pipeline.PreTokenizer)
			if err != nil {
				t.Fatal(err)
			}
			compare(t, "random", random, 1000, c.Random, splits(n, p))
			compareCodePoints(t, points, c.Points, splits(n, p))
		})
	}
}

// sharedData is the folder of data sets that are not part of this module.
const sharedData = "../../shared/data"

func sharedVocab(tb testing.TB) map[string]int64 {
	tb.Helper()
	file, err := os.Open(filepath.Join(sharedData, "models/bert_base_uncased_vocab/vocab.txt"))
	if err != nil {
		tb.Skipf("the vocabulary of bert-base-uncased is not here: %v", err)
	}
	defer file.Close() //nolint:errcheck // only read
	vocab, err := models.ReadVocab(file)
	if err != nil {
		tb.Fatal(err)
	}
	return vocab
}

// sharedLines returns the lines of data sets.
func sharedLines(tb testing.TB, files ...string) []string {
	tb.Helper()
	var lines []string
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(sharedData, f))
		if err != nil {
			tb.Skipf("a data set is not here: %v", err)
		}
		lines = append(lines, strings.Split(string(data), "\n")...)
	}
	return lines
}

// sharedSets are the data sets that sums.py uses.
var sharedSets = map[string][]string{
	"mrpc": {"mrpc/train.tsv", "mrpc/dev.tsv", "mrpc/test.tsv"}, "sst2": {"sst2/train.tsv", "sst2/dev.tsv"},
	"ag_news":  {"ag_news/sample10k.tsv"},
	"sms_spam": {"sms_spam/sms.tsv"}, "rt_polarity": {"rt_polarity/rt-polarity.pos", "rt_polarity/rt-polarity.neg"},
}

// bertLike returns the same tokenizer as bert in sums.py.
func bertLike(t *testing.T, n normalizers.BertNormalizer) *Tokenizer {
	t.Helper()
	m, err := models.NewWordPiece(sharedVocab(t), models.WordPieceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	tok, err := New(Config{
		AddedTokens: SpecialTokens("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"), Normalizer: n,
		PreTokenizer: pretokenizers.BertPreTokenizer{}, Model: m,
		PostProcessor: processors.BertProcessing{Sep: processors.SpecialToken{Token: "[SEP]", ID: 102},
			Cls: processors.SpecialToken{Token: "[CLS]", ID: 101}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// encodingBytes returns the bytes that sums.py hashes.
func encodingBytes(e *Encoding) []byte {
	var out []byte
	for i, id := range e.IDs {
		out = number(number(number(number(out, int(id)), e.Offsets[i].Start), e.Offsets[i].End), e.Words[i])
	}
	return out
}

func TestWordPieceEncodesWholeDataSetsAsTheReference(t *testing.T) {
	keep := false
	for name, n := range map[string]normalizers.BertNormalizer{
		"uncased":                 normalizers.DefaultBertNormalizer(),
		"cased":                   {CleanText: true, HandleChineseChars: true},
		"keep accents":            {CleanText: true, HandleChineseChars: true, StripAccents: &keep, Lowercase: true},
		"no Chinese, no cleaning": {Lowercase: true},
	} {
		t.Run(name, func(t *testing.T) {
			tok := bertLike(t, n)
			want := readSums(t).Data[name]
			if len(want) == 0 {
				t.Fatalf("testdata/sums.json has no sums for %q", name)
			}
			of := func(text string) []byte {
				e, err := tok.Encode(text, nil)
				if err != nil {
					t.Fatal(err)
				}
				ids, err := tok.AppendIDs(nil, Single(text), nil)
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(ids, e.IDs) {
					t.Fatalf("AppendIDs(%q) = %v, Encode has %v", text, ids, e.IDs)
				}
				return encodingBytes(e)
			}
			compare(t, "random", randomTexts(20000, 1), 1000, want["random"], of)
			if name == "uncased" {
				compare(t, "code points", codePoints(), 0x800, want["points"], of)
			} else {
				compareCodePoints(t, codePoints(), want["points"], of)
			}
			if testing.Short() {
				return // the data sets take 20 seconds, and a minute under the race detector
			}
			for set, files := range sharedSets {
				compare(t, set, sharedLines(t, files...), 5000, want[set], of)
			}
		})
	}
}

func TestShortWayIsTheLongWay(t *testing.T) {
	tok := tiny(t)
	if tok.bert == nil {
		t.Fatal("BERT's pipeline does not take the short way")
	}
	texts := append(randomTexts(5000, 2), codePoints()...)
	for i := 0; i < len(texts); i += blocksOfASweep {
		text := texts[i]
		short, err := tok.bert.encode(tok.added, text, 0, -1, 0)
		if err != nil {
			t.Fatal(err)
		}
		long, err := tok.tokenizeAny(text, 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		if short != nil && (!bytes.Equal(encodingBytes(short), encodingBytes(long)) ||
			!slices.Equal(short.ByteOffsets, long.ByteOffsets) || !slices.Equal(short.Tokens, long.Tokens)) {
			t.Fatalf("%q: the short way gives %q %v %v, the long way %q %v %v", text, short.Tokens, short.Offsets,
				short.ByteOffsets, long.Tokens, long.Offsets, long.ByteOffsets)
		}
	}
}
