package plates

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestCharsetIsHezars(t *testing.T) {
	c := Charset()
	if len(c) != 73 || c[0] != "" || c[1] != "آ" || c[34] != " " || c[35] != "۱" || c[44] != "۰" || c[72] != "0" {
		t.Errorf("charset of %d classes: %q", len(c), c)
	}
	c[3] = "x"
	if Charset()[3] != "ب" {
		t.Error("a caller can change the charset")
	}
}

func TestEncodeGivesAClassToEachCodePoint(t *testing.T) {
	got, err := Encode("۱۲الف۲۸۲۱۱")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int64{35, 36, 2, 28, 24, 36, 42, 36, 35, 35}, got); diff != "" {
		t.Error(diff)
	}
	if _, err := Encode("۱۲x۳"); err == nil || !strings.Contains(err.Error(), `'x'`) {
		t.Errorf("a foreign character: %v", err)
	}
	if _, err := Decode([]int64{73}); err == nil {
		t.Error("class 73 is decoded")
	}
	if _, err := Decode([]int64{-1}); err == nil {
		t.Error("class -1 is decoded")
	}
}

func TestEveryLabelSurvivesEncodeAndDecode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		label := drawnLabel(t)
		ids, err := Encode(label)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := Decode(append(ids, 0, 0)); err != nil || back != label {
			t.Fatalf("%q came back as %q, %v", label, back, err)
		}
		for _, id := range ids {
			if id == 0 {
				t.Fatalf("%q uses the blank of CTC", label)
			}
		}
	})
}
