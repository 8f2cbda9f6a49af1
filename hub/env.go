package hub

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// DefaultEndpoint is the address of the Hub that is used if neither [Client.Endpoint] nor
// HF_ENDPOINT gives another.
const DefaultEndpoint = "https://huggingface.co"

// isTrue parses a boolean variable as Python's client does.
func isTrue(value string) bool {
	switch strings.ToUpper(value) {
	case "1", "ON", "YES", "TRUE":
		return true
	}
	return false
}

// expand replaces ~ at the start of a path and $NAME in it. As in Python's expandvars, unknown
// names are unchanged.
func expand(path string) string {
	if rest, ok := strings.CutPrefix(path, "~"); ok && (rest == "" || os.IsPathSeparator(rest[0])) {
		if home, err := os.UserHomeDir(); err == nil {
			path = home + rest
		}
	}
	return os.Expand(path, func(name string) string {
		if value, ok := os.LookupEnv(name); ok {
			return value
		}
		return "$" + name
	})
}

// homeDir returns HF_HOME or its default, the folder of the token and the cache.
func homeDir() (string, error) {
	if dir := os.Getenv("HF_HOME"); dir != "" {
		return expand(dir), nil
	}
	if dir := os.Getenv("XDG_CACHE_HOME"); dir != "" {
		return filepath.Join(expand(dir), "huggingface"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("hub: there is no folder for the cache: %w; set HF_HOME", err)
	}
	return filepath.Join(home, ".cache", "huggingface"), nil
}

// CacheDir returns the folder of cached repositories: HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE or the
// folder hub in HF_HOME.
func CacheDir() (string, error) {
	for _, name := range []string{"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"} {
		if dir := os.Getenv(name); dir != "" {
			return expand(dir), nil
		}
	}
	home, err := homeDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(home, "hub"), nil
}

// TokenPath returns the path of the token file: HF_TOKEN_PATH, or token in HF_HOME.
func TokenPath() (string, error) {
	if path := os.Getenv("HF_TOKEN_PATH"); path != "" {
		return expand(path), nil
	}
	home, err := homeDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(home, "token"), nil
}

// Token returns the token of the environment: HF_TOKEN, HUGGING_FACE_HUB_TOKEN or the token file.
// It is empty if there is none.
func Token() (Secret, error) {
	for _, name := range []string{"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"} {
		if s := NewSecret(os.Getenv(name)); !s.IsZero() {
			return s, nil
		}
	}
	path, err := TokenPath()
	if err != nil {
		return Secret{}, nil // no home, so no token file
	}
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Secret{}, nil
	case err != nil:
		return Secret{}, fmt.Errorf("hub: cannot read the token: %w; give HF_TOKEN instead, or mend the file's rights",
			err)
	}
	return NewSecret(string(text)), nil
}

// offlineEnv reports whether the environment forbids the network.
func offlineEnv() bool {
	if value := os.Getenv("HF_HUB_OFFLINE"); value != "" {
		return isTrue(value)
	}
	return isTrue(os.Getenv("TRANSFORMERS_OFFLINE"))
}

// timeoutEnv returns HF_HUB_DOWNLOAD_TIMEOUT, in seconds, or 10 s.
func timeoutEnv() time.Duration {
	if n, err := strconv.Atoi(os.Getenv("HF_HUB_DOWNLOAD_TIMEOUT")); err == nil && n > 0 {
		return time.Duration(n) * time.Second
	}
	return 10 * time.Second
}
