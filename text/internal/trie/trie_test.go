package trie

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestLongestFindsTheLongestKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		letters := rapid.StringOfN(rapid.RuneFrom([]rune("abcé🙂\x00")), 0, 6, -1)
		keys := rapid.SliceOfNDistinct(letters, 0, 40, rapid.ID[string]).Draw(t, "keys")
		text := letters.Draw(t, "text")
		trie := New(keys)
		want, length := None, 0
		for i, k := range keys {
			if k != "" && strings.HasPrefix(text, k) && len(k) > length {
				want, length = int32(i), len(k)
			}
			state, ok := trie.Walk(Root, k)
			if !ok || trie.Value(state) != int32(i) {
				t.Fatalf("key %q is not found", k)
			}
		}
		if got, n := trie.Longest(Root, []byte(text)); got != want || n != length {
			t.Fatalf("Longest(%q) = %d, %d, want %d, %d", text, got, n, want, length)
		}
	})
}
