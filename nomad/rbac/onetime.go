package rbac

import (
	"fmt"
	"io"
	"log/slog"
	"time"
)

// OneTimeTokenTTL is the time during which a one-time token can be exchanged.
const OneTimeTokenTTL = 10 * time.Minute

// OneTimeToken can be exchanged once for an ACL token. The first caller with its secret receives that token.
type OneTimeToken struct {
	OneTimeSecretID string
	AccessorID      string
	ExpiresAt       time.Time
	CreateIndex     uint64
	ModifyIndex     uint64
}

// HasExpired reports whether the token has expired.
func (t *OneTimeToken) HasExpired(now time.Time) bool { return !t.ExpiresAt.After(now) }

// String returns the accessor of the corresponding ACL token only.
func (t *OneTimeToken) String() string {
	if t == nil {
		return "one-time token(none)"
	}
	return "one-time token(" + t.AccessorID + ")"
}

// Format implements fmt.Formatter. Every verb prints the result of String.
func (t *OneTimeToken) Format(f fmt.State, _ rune) { io.WriteString(f, t.String()) }

// LogValue implements slog.LogValuer with the result of String.
func (t *OneTimeToken) LogValue() slog.Value { return slog.StringValue(t.String()) }
