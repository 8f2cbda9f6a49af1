package hub_test

import (
	"net/http"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gotrainer/gotrainer/hub"
)

// FuzzCheckName looks for an accepted name that is outside the folder by the rules of some
// operating system.
func FuzzCheckName(f *testing.F) {
	for _, s := range []string{"a/b", "../a", `a\b`, "C:a", "/a", "a/../b", "a//b", ".", "\x00", "a/.. /b", "con"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if hub.CheckName(name) != nil {
			return
		}
		if path.IsAbs(name) || path.Clean("/"+name) != "/"+name || !filepath.IsLocal(filepath.FromSlash(name)) ||
			strings.Contains(name, `\`) || strings.Contains("/"+name+"/", "/../") {
			t.Errorf("checkName(%q) lets it through", name)
		}
		for part := range strings.SplitSeq(name, "/") {
			if len(part) > 1 && part[1] == ':' && (part[0]|0x20 >= 'a' && part[0]|0x20 <= 'z') {
				t.Errorf("checkName(%q) lets a drive through", name)
			}
		}
	})
}

func FuzzParseRepoID(f *testing.F) {
	for _, s := range []string{"me/bert", "bert", "a--b", "a/b/c", "../b", "a.git", "-a", "a/", "é/b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, id string) {
		folder, err := hub.ParseRepoID(id)
		if err == nil && (strings.ContainsAny(folder, "/\\") || strings.Contains(folder, "..") || strings.Count(folder,
			"--") != 1+strings.Count(id, "/")) {
			t.Errorf("ParseRepoID(%q) = %q, which is no folder of its own", id, folder)
		}
	})
}

func FuzzMatch(f *testing.F) {
	for _, g := range []string{"*", "[a-z]*.json", "[!a", "[]]", "a?[^b]", "[z-a]", "[\\x{}]", "**/", "(?i)"} {
		f.Add(g, "a/b.json")
	}
	f.Fuzz(func(t *testing.T, glob, name string) {
		if _, err := hub.Match(glob, name); err != nil && len(glob) < 500 {
			t.Errorf("Match(%q): %v; every text is a pattern", glob, err)
		}
	})
}

func FuzzParseTree(f *testing.F) {
	f.Add([]byte(`{"format_version": 1, "files": {"a": {"size": 1, "blob_id": "9e26dfeeb6e641a33dae4961196235bdb965b21b"}}}`))
	f.Add([]byte(`{"format_version": 1, "files": {"../a": {"size": -1, "blob_id": "x", "lfs_sha256": "", "lfs_size": null}}}`))
	f.Add([]byte(`{"files": null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		entries, err := hub.ParseTree(text)
		for _, e := range entries {
			if err != nil || hub.CheckName(e.Path) != nil || e.Size < 0 || len(e.Blob) != 40 {
				t.Errorf("ParseTree(%q) gives %+v, %v", text, e, err)
			}
		}
	})
}

func FuzzHeaders(f *testing.F) {
	for _, s := range []string{`<http://x/?a=1>; rel="next"`, `</p>; rel=prev, </n>; rel="next"`, "<", "bytes 5-9/10",
		"bytes -", `"api";r=0;t=55`, "120", "Wed, 21 Oct 2015 07:28:00 GMT", "99999999999999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if next := hub.NextPage([]string{s}); next != "" && !strings.Contains(s, "<"+next+">") {
			t.Errorf("nextPage(%q) = %q", s, next)
		}
		if n := hub.RangeStart(s); n < -1 {
			t.Errorf("rangeStart(%q) = %d", s, n)
		}
		if d, ok := hub.ParseWait(hub.WaitHeader(http.Header{"Ratelimit": {s}, "Retry-After": {s}}),
			time.Unix(0, 0)); ok && d < 0 {
			t.Errorf("a pause of %v after %q", d, s)
		}
	})
}

func FuzzParseCard(f *testing.F) {
	for _, s := range []string{"---\na: 1\n---\nx", "---\n---\n", "\ufeff---\r\n- a\r\n---", "# x",
		"---\na: &a [*a]\n---\n", "---\n<<: 1\n---\n", "---\n? {}\n---\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if _, body, err := hub.ParseCard(text); err == nil && !strings.HasSuffix(string(text), body) {
			t.Errorf("ParseCard(%q) gives the body %q, which is no end of it", text, body)
		}
	})
}

func FuzzTrainerState(f *testing.F) {
	f.Add([]byte(`{"log_history": [{"loss": 0.5, "step": 1}, {"eval_loss": 0.4, "eval_f1": 1, "": null, "é_ß": "x"}, {"train_runtime": 1}]}`))
	f.Add([]byte(`{"log_history": [{"eval_loss": {"a": [1e400]}}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		card := hub.ModelCard{ModelName: "x"}
		if card.AddTrainerState(text) != nil {
			return
		}
		out, err := card.Markdown()
		if err == nil {
			_, _, err = hub.ParseCard(out)
		}
		if err != nil {
			t.Errorf("the card of %q: %v", text, err)
		}
	})
}

func TestPauses(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name string
		h    http.Header
		want time.Duration
		ok   bool
	}{
		{"seconds, and one", http.Header{"Retry-After": {" 120 "}}, 121 * time.Second, true},
		{"none", http.Header{"Retry-After": {"0"}}, 0, true},
		{"a date", http.Header{"Retry-After": {"Thu, 01 Jan 2026 00:01:00 GMT"}}, time.Minute, true},
		{"a date that has passed", http.Header{"Retry-After": {"Wed, 21 Oct 2015 07:28:00 GMT"}}, 0, true},
		{"the rate limit's window", http.Header{"Ratelimit": {`"api"; r=0; t=55`}, "Retry-After": {"5"}},
			56 * time.Second, true},
		{"a rate limit that was not hit", http.Header{"Ratelimit": {`"api";r=9;t=55`}, "Retry-After": {"5"}},
			6 * time.Second, true},
		{"nonsense", http.Header{"Retry-After": {"soon"}}, 0, false},
		{"a negative number", http.Header{"Retry-After": {"-5"}}, 0, false},
	} {
		if got, ok := hub.ParseWait(hub.WaitHeader(c.h), now); got != c.want || ok != c.ok {
			t.Errorf("%s: %v, %v; want %v, %v", c.name, got, ok, c.want, c.ok)
		}
	}
}

func TestPartsOfAnUpload(t *testing.T) {
	for _, c := range []struct {
		name   string
		header map[string]string
		size   int64
		want   string
	}{
		{"by number, not by text", map[string]string{"chunk_size": "5", "10": "j", "2": "b", "1": "a", "3": "c",
			"4": "d", "5": "e", "6": "f", "7": "g", "8": "h", "9": "i"}, 50, "abcdefghij"},
		{"with leading zeros", map[string]string{"00002": "b", "00001": "a"}, 6, "ab"},
		{"a short last part", map[string]string{"1": "a", "2": "b"}, 10, "ab"},
		{"too few", map[string]string{"1": "a"}, 6, ""},
		{"too many", map[string]string{"1": "a", "2": "b"}, 5, ""},
	} {
		got, err := hub.PartsFor(c.header, c.size, 5)
		if strings.Join(got, "") != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%s: %q, %v; want %q", c.name, got, err, c.want)
		}
	}
}
