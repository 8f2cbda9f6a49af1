package normalizers

import (
	"encoding/binary"
	"strings"
	"testing"
	"unicode/utf8"
)

// letterA returns a table with one entry, which maps "a" to "b".
func letterA() []byte {
	units := make([]uint32, 512)
	units[0] = 1 << 10
	units[1^'a'] = 'a' | 1<<8 | (1^'a'^256)<<10
	units[256] = leaf
	b := binary.LittleEndian.AppendUint32(nil, uint32(4*len(units)))
	for _, u := range units {
		b = binary.LittleEndian.AppendUint32(b, u)
	}
	return append(b, "b\x00"...)
}

func TestDamagedCharsmapsAreRefused(t *testing.T) {
	leafBeyond := letterA()
	binary.LittleEndian.PutUint32(leafBeyond[4+4*256:], leaf|9)
	for _, c := range []struct {
		claim string
		table []byte
		want  string
	}{
		{"nothing", nil, "0 bytes"},
		{"a trie of no units", make([]byte, 4), "trie of 0 bytes"},
		{"a trie longer than the table", []byte{8, 0, 0, 0, 1, 2, 3, 4}, "trie of 8 bytes in 4"},
		{"half a unit", []byte{2, 0, 0, 0, 1, 2}, "multiple of 4"},
		{"text that is no UTF-8", append(letterA(), 0xFF), "no UTF-8"},
		{"a value behind the text", leafBeyond, "unit 256"},
	} {
		if _, err := NewPrecompiled(c.table); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.claim, err, c.want)
		}
	}
	if _, err := Parse([]byte(`{"type":"Precompiled","precompiled_charsmap":null}`)); err == nil {
		t.Error("a table that is null was accepted")
	}
}

// FuzzPrecompiled reads damaged tables; accepted ones must normalize any text without a
// panic, to UTF-8 and with spans within the text.
func FuzzPrecompiled(f *testing.F) {
	f.Add(letterA(), "a\u0301 xa\r\n\u0600a")
	f.Add(letterA()[:2052], "aa")
	f.Add([]byte{4, 0, 0, 0, 0, 4, 0, 0}, "\u200d")
	f.Fuzz(func(t *testing.T, table []byte, text string) {
		n, err := NewPrecompiled(table)
		if err != nil {
			return
		}
		s := NewString(text)
		n.Normalize(&s)
		if !utf8.ValidString(s.Text()) {
			t.Fatalf("%q became %q, which is no UTF-8", text, s.Text())
		}
		for i := range len(s.Text()) {
			if o := s.Original(i, i+1); o.Start < 0 || o.End < o.Start || o.End > len(text) {
				t.Fatalf("byte %d of %q stands for the bytes %v of %q", i, s.Text(), o, text)
			}
		}
	})
}
