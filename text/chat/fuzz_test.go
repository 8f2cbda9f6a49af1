package chat_test

import (
	"encoding/json"
	"testing"

	"github.com/gotrainer/gotrainer/text/chat"
)

// FuzzConversation checks that a JSON object is written back unchanged, and that no line makes the
// readers of conversations and preferences panic, or a template that visits all of it.
func FuzzConversation(f *testing.F) {
	for _, s := range []string{`{"messages": [{"role": "user", "content": "a"}]}`,
		`{"prompt": [{"role": "a", "content": null}], "completion": [{"x": [1, 2.5e300, {"b": {}, "a": []}]}], "tools": "[1]"}`,
		`{"messages": [{"role": "user", "role": "é\u0000\ud800"}], "documents": [{}], "chat_template_kwargs": {"x": -0}}`} {
		f.Add(s)
	}
	for _, s := range []string{`{"chosen": "a b", "rejected": "a c", "tools": []}`,
		`{"prompt": [], "chosen": [{"role": "a"}], "rejected": [{"role": "b"}]}`,
		`{"prompt": "a", "completion": "b", "label": true}`} {
		f.Add(s)
	}
	tmpl, err := chat.Parse("{{ messages|tojson }}{{ tools|tojson(indent=1) }}{{ documents }}{{ x }}")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, line string) {
		var o chat.Object
		if json.Unmarshal([]byte(line), &o) == nil {
			content, err := json.Marshal(o)
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			var again chat.Object
			if err := json.Unmarshal(content, &again); err != nil {
				t.Fatalf("%q as %q: %v", line, content, err)
			}
			if second, err := json.Marshal(again); err != nil || string(second) != string(content) {
				t.Fatalf("%q as %q, and as %q: %v", line, content, second, err)
			}
		}
		var c chat.Conversation
		if json.Unmarshal([]byte(line), &c) == nil {
			_, _ = tmpl.Render(c, chat.Options{})
		}
		var p chat.Preference
		if json.Unmarshal([]byte(line), &p) == nil && p.IsChat() {
			_, _ = tmpl.Render(p.Conversation(p.Chosen), chat.Options{})
		}
		var u chat.UnpairedPreference
		_ = json.Unmarshal([]byte(line), &u)
	})
}
