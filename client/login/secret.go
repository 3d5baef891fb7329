package login

import (
	"fmt"
	"log/slog"
)

// Secret is the secret of a token. It prints as "token" only.
type Secret struct {
	raw *string // fmt and others do not follow pointers in fields
}

// NewSecret returns a Secret.
func NewSecret(raw string) Secret {
	if raw == "" {
		return Secret{}
	}
	return Secret{raw: &raw}
}

// Reveal returns the secret, "" for the zero value.
func (s Secret) Reveal() string {
	if s.raw == nil {
		return ""
	}
	return *s.raw
}

// IsZero reports whether the secret is empty.
func (s Secret) IsZero() bool { return s.raw == nil }

// String does not return the secret.
func (s Secret) String() string { return "token" }

// Format implements fmt.Formatter. Every verb prints the result of String.
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
