package text

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

func TestReverseDigitsIsHezars(t *testing.T) {
	// Results of hezar.utils.reverse_string_digits, hezar 1.0.0.
	for in, want := range map[string]string{
		"12ب345":     "543ب21",
		"a12bc34":    "a21bc43",
		"1/2/33 45":  "54 33/2/1",
		"۱۲ب۳۴۵۶۷":   "۷۶۵۴۳ب۲۱",
		"۱۲الف۲۸۲۱۱": "۲۱الف۱۱۲۸۲",
		"":           "",
		"الف":        "الف",
	} {
		if got := ReverseDigits(in); got != want {
			t.Errorf("ReverseDigits(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestReverseDigitsTwiceGivesTheTextBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringOf(rapid.RuneFrom([]rune("0123۴۵۶ab ./الف"))).Draw(t, "text")
		if got := ReverseDigits(ReverseDigits(s)); got != s {
			t.Fatalf("ReverseDigits twice of %q is %q", s, got)
		}
	})
}

func ExampleReverseDigits() {
	fmt.Println(ReverseDigits("12B34567"))
	// Output: 76543B21
}
