package hub

import (
	"fmt"
	"log/slog"
	"strings"
)

// Secret holds a token. However it is printed, logged or encoded, it appears as ***, or as nothing
// if it is empty; only [Secret.Reveal] returns it.
type Secret struct {
	// behind a pointer, since package fmt prints the unexported fields of a struct without asking
	// its methods
	value *string
}

// NewSecret wraps a token. Line endings and surrounding space, which files and shells add, are
// removed.
func NewSecret(token string) Secret {
	token = strings.TrimSpace(strings.NewReplacer("\r", "", "\n", "").Replace(token))
	if token == "" {
		return Secret{}
	}
	return Secret{&token}
}

// Reveal returns the token itself.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// redact replaces the token in a text from elsewhere.
func (s Secret) redact(text string) string {
	if s.IsZero() {
		return text
	}
	return strings.ReplaceAll(text, s.Reveal(), s.String())
}

// redactError replaces the token in the text of an error, which still wraps the same errors.
func (s Secret) redactError(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if clean := s.redact(text); clean != text {
		return &redactedError{clean, err}
	}
	return err
}

// redactedError is an error whose text held the token.
type redactedError struct {
	text string
	err  error
}

func (e *redactedError) Error() string { return e.text }

func (e *redactedError) Unwrap() error { return e.err }

// IsZero reports whether there is no token.
func (s Secret) IsZero() bool { return s.value == nil }

// String returns ***, or nothing for an empty secret.
func (s Secret) String() string {
	if s.IsZero() {
		return ""
	}
	return "***"
}

// Format hides the token from every verb of package fmt.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// GoString returns the same as [Secret.String].
func (s Secret) GoString() string { return s.String() }

// MarshalText hides the token from encoders, including those of JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue hides the token from package slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
