package hezar

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/text"
)

// calls is the content of testdata/calls.json, written by calls.py with Hezar.
type calls struct {
	Tokenizers map[string]struct {
		Texts []string
		Calls []struct {
			Call struct {
				Padding    string
				Truncation string
				MaxLength  int `json:"max_length"`
				MultipleOf int `json:"pad_to_multiple_of"`
			}
			TokenIDs      [][]int64 `json:"token_ids"`
			AttentionMask [][]int64 `json:"attention_mask"`
		}
		Decoded []string
	}
	Normalizer []struct {
		In      string
		Default string
		NFKDOff string `json:"nfkd_off"`
	}
}

func readCalls(t *testing.T) (c calls) {
	t.Helper()
	data, err := os.ReadFile("testdata/calls.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTokenizersGiveWhatHezarGives(t *testing.T) {
	for name, c := range readCalls(t).Tokenizers {
		tok, err := LoadTokenizer("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		for i, call := range c.Calls {
			configured, err := tok.Configured(CallOptions{call.Call.Padding, call.Call.Truncation, call.Call.MaxLength,
				call.Call.MultipleOf})
			if err != nil {
				t.Fatal(err)
			}
			batch, err := configured.EncodeBatch(context.Background(), text.Texts(c.Texts...), nil)
			if err != nil {
				t.Fatal(err)
			}
			var ids, mask [][]int64
			for k, e := range batch {
				ids, mask = append(ids, e.IDs), append(mask, e.AttentionMask)
				if got := configured.Decode(e.IDs, nil); i == 0 && got != c.Decoded[k] {
					t.Errorf("%s: Decode(%v) = %q, want %q", name, e.IDs, got, c.Decoded[k])
				}
			}
			if d := cmp.Diff(call.TokenIDs, ids) + cmp.Diff(call.AttentionMask, mask); d != "" {
				t.Errorf("%s, call %+v: -Hezar +here\n%s", name, call.Call, d)
			}
		}
	}
}

func TestTextNormalizerGivesWhatHezarGives(t *testing.T) {
	n, err := LoadNormalizer("testdata/normalizer/preprocessor")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range readCalls(t).Normalizer {
		if got := n.Normalize(row.In); got != row.Default {
			t.Errorf("Normalize(%q) = %q, want %q", row.In, got, row.Default)
		}
		if got := n.NormalizeWith(row.In, false, true); got != row.NFKDOff {
			t.Errorf("NormalizeWith(%q, false, true) = %q, want %q", row.In, got, row.NFKDOff)
		}
	}
}

func TestTextNormalizerHoldsTheRecordedVectors(t *testing.T) {
	data, err := os.ReadFile("../../../shared/conformance/cases/hezar_text/vectors.json")
	if err != nil {
		t.Skipf("the recorded vectors are not here: %v", err)
	}
	var f struct {
		Normalizer struct {
			Patterns [][2]string
			Rows     []struct {
				In           string
				Default      string
				WithPatterns string `json:"with_patterns"`
			}
		}
	}
	if err := json.Unmarshal(data, &f); err != nil {
		t.Fatal(err)
	}
	plain, err := NewNormalizer(NormalizerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	patterns, err := NewNormalizer(NormalizerConfig{ReplacePatterns: f.Normalizer.Patterns})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range f.Normalizer.Rows {
		if got := plain.Normalize(row.In); got != row.Default {
			t.Errorf("Normalize(%q) = %q, want %q", row.In, got, row.Default)
		}
		if got := patterns.Normalize(row.In); got != row.WithPatterns {
			t.Errorf("Normalize(%q) with patterns = %q, want %q", row.In, got, row.WithPatterns)
		}
	}
}

// The expected texts are those of Hezar 1.0.0's TextNormalizer with these patterns.
func TestTextNormalizerRefersBackAndCallsGroups(t *testing.T) {
	n, err := NewNormalizer(NormalizerConfig{ReplacePatterns: Patterns{{`(.)\1{2,}`, "x"}, {`(\d\d)-\g<1>`, "#"},
		{`(?<=\s)و(?=\s)`, "&"}}})
	require.NoError(t, err)
	require.Equal(t, "سلxم # & 3-44", n.Normalize("سلاااام 11-22 و 3-44"))
	require.Equal(t, "لالالا aab", n.Normalize("ﻻﻻﻻ aab"))
}

func TestMistakesAreNamed(t *testing.T) {
	write := func(name, content string) string {
		dir := t.TempDir()
		if err := os.WriteFile(dir+"/"+name, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	tok, err := LoadTokenizer("testdata/wordpiece")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		claim, want string
		do          func() error
	}{
		{"a folder without files", "tokenizer_config.yaml", func() error {
			_, err := LoadTokenizer(t.TempDir())
			return err
		}},
		{"an unknown kind", `"magic"`, func() error {
			_, err := LoadTokenizer(write("tokenizer_config.yaml", "name: magic"))
			return err
		}},
		{"a wrong side", `"up"`, func() error {
			_, err := LoadTokenizer(write("tokenizer_config.yaml", "name: bpe_tokenizer\npadding_side: up"))
			return err
		}},
		{"YAML that is none", "normalizer_config.yaml", func() error {
			_, err := LoadNormalizer(write("normalizer_config.yaml", "a: ["))
			return err
		}},
		{"a pattern of three", "3 parts", func() error {
			_, err := LoadNormalizer(write("normalizer_config.yaml", "replace_patterns: [[a, b, c]]"))
			return err
		}},
		{"a pattern that calls itself", "its own group", func() error {
			_, err := LoadNormalizer(write("normalizer_config.yaml", "replace_patterns: {x: ['(a\\g<1>?b)', '']}"))
			return err
		}},
		{"unknown padding", `"most"`, func() error {
			_, err := tok.Configured(CallOptions{Padding: "most"})
			return err
		}},
		{"unknown truncation", `"most"`, func() error {
			_, err := tok.Configured(CallOptions{Truncation: "most", MaxLength: 3})
			return err
		}},
	} {
		if err := c.do(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %s", c.claim, err, c.want)
		}
	}
}

// FuzzLoadNormalizer reads damaged normalizer_config.yaml files.
func FuzzLoadNormalizer(f *testing.F) {
	f.Setenv("TMPDIR", f.TempDir()) // of its workers too, which may be killed
	f.Add("name: text_normalizer\nreplace_patterns:\n- - '[ؤئ]'\n  - x\nnfkd: false\n", "مؤمن")
	f.Add("replace_patterns: {x: ['\\s+', ' ']}", "a  b")
	f.Fuzz(func(t *testing.T, config, text string) {
		dir := t.TempDir()
		if err := os.WriteFile(dir+"/normalizer_config.yaml", []byte(config), 0o666); err != nil {
			t.Fatal(err)
		}
		if n, err := LoadNormalizer(dir); err == nil {
			n.Normalize(text)
		}
	})
}

func ExampleLoadTokenizer() {
	tok, err := LoadTokenizer("testdata/wordpiece")
	if err != nil {
		fmt.Println(err)
		return
	}
	configured, err := tok.Configured(CallOptions{Padding: "max_length", Truncation: "longest_first", MaxLength: 6})
	if err != nil {
		fmt.Println(err)
		return
	}
	e, err := configured.Encode("این کتاب", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(e.Tokens, e.AttentionMask)
	// Output: [این کتاب [PAD] [PAD] [PAD] [PAD]] [1 1 0 0 0 0]
}
