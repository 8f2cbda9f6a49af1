package hub_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/gotrainer/gotrainer/hub"
	"github.com/gotrainer/gotrainer/hub/hubtest"
)

func TestASecretIsNeverPrinted(t *testing.T) {
	s := hub.NewSecret(token)
	type holder struct {
		Public hub.Secret
		hidden hub.Secret
	}
	h := holder{s, s}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%p", "%T"} {
		for _, v := range []any{s, &s, h, &h, []hub.Secret{s}, map[string]hub.Secret{"a": s}, h.hidden,
			&hub.Client{Token: s}, errors.New(fmt.Sprint(s))} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
	}
	for _, handler := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(handler).Info("x", "secret", s, "holder", h, "client", &hub.Client{Token: s})
	}
	for _, v := range []any{s, &s, h} {
		for _, marshal := range []func(any) ([]byte, error){json.Marshal, yaml.Marshal} {
			text, err := marshal(v)
			if err != nil {
				t.Error(err)
			}
			out.Write(text)
		}
	}
	for _, form := range []string{token, fmt.Sprintf("%x", token), fmt.Sprintf("%X", token)} {
		if strings.Contains(out.String(), form) {
			t.Errorf("the token is in:\n%s", out.String())
		}
	}
	if !strings.Contains(out.String(), "***") || s.Reveal() != token || s.String() != "***" {
		t.Errorf("String = %q, Reveal = %d bytes", s, len(s.Reveal()))
	}
	if e := hub.NewSecret(" \r\n"); !e.IsZero() || e.String() != "" || hub.NewSecret(" a\n").Reveal() != "a" {
		t.Errorf("an empty secret prints as %q", e)
	}
}

func TestErrorsHaveNoSignaturesAndTokens(t *testing.T) {
	for _, f := range []hubtest.Fault{
		{CDN: true, Status: 403}, {CDN: true, DropAfter: 10}, {Path: "/resolve/", Status: 302,
			Header: map[string][]string{"Location": {"ftp://x/y?signature=s3cret"}}},
		{Path: "/resolve/", Status: 302,
			Header: map[string][]string{"Location": {"http://127.0.0.1:1/y?signature=s3cret"}}, Times: -1},
	} {
		w := newWorld(t) // its cache is empty
		w.model("me/bert")
		w.client.Retries = -1
		w.Inject(f)
		_, err := w.client.Fetch(w.ctx, "me/bert", nil)
		if err == nil || strings.Contains(err.Error(), "CANARY") || strings.Contains(err.Error(), "Signature") ||
			strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%+v: Fetch = %v; want an error without signature and token", f, err)
		}
	}
}

func TestSettingsOfTheEnvironment(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	for _, c := range []struct {
		name          string
		env           map[string]string
		cache, secret string
	}{
		{"HF_HOME", map[string]string{"HF_HOME": "/h"}, "/h/hub", "/h/token"},
		{"HF_HOME with a tilde", map[string]string{"HF_HOME": "~/h"}, home + "/h/hub", home + "/h/token"},
		{"HF_HOME with a variable", map[string]string{"HF_HOME": "$ROOT/h", "ROOT": "/r"}, "/r/h/hub", "/r/h/token"},
		{"an unknown variable stays", map[string]string{"HF_HOME": "/x/$NOSUCH"}, "/x/$NOSUCH/hub", "/x/$NOSUCH/token"},
		{"XDG_CACHE_HOME", map[string]string{"HF_HOME": "", "XDG_CACHE_HOME": "/x"}, "/x/huggingface/hub",
			"/x/huggingface/token"},
		{"nothing", map[string]string{"HF_HOME": "", "XDG_CACHE_HOME": ""}, home + "/.cache/huggingface/hub",
			home + "/.cache/huggingface/token"},
		{"HF_HUB_CACHE", map[string]string{"HF_HOME": "/h", "HF_HUB_CACHE": "/c", "HUGGINGFACE_HUB_CACHE": "/old"},
			"/c", "/h/token"},
		{"HUGGINGFACE_HUB_CACHE", map[string]string{"HF_HOME": "/h", "HUGGINGFACE_HUB_CACHE": "/old"}, "/old",
			"/h/token"},
		{"HF_TOKEN_PATH", map[string]string{"HF_HOME": "/h", "HF_TOKEN_PATH": "/t/x"}, "/h/hub", "/t/x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for k, v := range c.env {
				t.Setenv(k, v)
			}
			cache, err := hub.CacheDir()
			path, err2 := hub.TokenPath()
			if err != nil || err2 != nil || cache != c.cache || path != c.secret {
				t.Errorf("CacheDir = %s, %v, TokenPath = %s, %v; want %s and %s", cache, err, path, err2, c.cache,
					c.secret)
			}
		})
	}
}

func TestLogin(t *testing.T) {
	w := newWorld(t)
	home := t.TempDir()
	t.Setenv("HF_HOME", filepath.Join(home, "hf"))
	client := &hub.Client{Endpoint: w.URL, CacheDir: t.TempDir()}
	if _, err := client.WhoAmI(w.ctx); !errors.Is(err, hub.ErrUnauthorized) {
		t.Errorf("WhoAmI without a token = %v", err)
	}
	if _, err := client.Login(w.ctx, hub.NewSecret("hf_wrong")); !errors.Is(err, hub.ErrUnauthorized) {
		t.Errorf("Login with a wrong token = %v", err)
	}
	if left := tree(t, home); len(left) != 0 {
		t.Errorf("a wrong token was kept: %q", left)
	}
	account, err := client.Login(w.ctx, hub.NewSecret(token+"\n"))
	if err != nil || account.Name != "me" || len(account.Organizations) != 1 || account.TokenRole != "write" {
		t.Fatalf("Login = %+v, %v", account, err)
	}
	path := filepath.Join(home, "hf", "token")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the token file: %v, %v; want the rights 0600", info, err)
	}
	if again, err := client.WhoAmI(w.ctx); err != nil || again.Name != "me" {
		t.Errorf("WhoAmI with the kept token = %+v, %v", again, err)
	}
	t.Setenv("HF_TOKEN", "hf_guest")
	if again, err := client.WhoAmI(w.ctx); err != nil || again.Name != "guest" {
		t.Errorf("HF_TOKEN is stronger than the file: %+v, %v", again, err)
	}
	t.Setenv("HF_TOKEN", "")
	t.Setenv("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")
	if _, err := client.WhoAmI(w.ctx); !errors.Is(err, hub.ErrUnauthorized) {
		t.Errorf("with HF_HUB_DISABLE_IMPLICIT_TOKEN: %v", err)
	}
	if err := errors.Join(hub.Logout(), hub.Logout()); err != nil {
		t.Errorf("Logout twice = %v", err)
	}
	if left := tree(t, home); len(left) != 0 {
		t.Errorf("after Logout: %q", left)
	}
}

func TestEndpointsThatAreNone(t *testing.T) {
	for _, endpoint := range []string{"huggingface.co", "ftp://x", "https://", "https://user:pw@x", "https://x?a=b",
		":"} {
		c := hub.Client{Endpoint: endpoint, CacheDir: t.TempDir()}
		if _, err := c.Info(t.Context(), "me/x", nil); err == nil || strings.Contains(err.Error(), "pw") ||
			errors.Is(err, hub.ErrUnreachable) {
			t.Errorf("Info at %q = %v, want an error about the endpoint without its password", endpoint, err)
		}
	}
}
