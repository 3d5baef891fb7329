package acls

import (
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/open-nomad/open-nomad/nomad/message"
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

// OneTimeTokenDeleteRequest is the log entry that removes the one-time tokens of ACL tokens. If OneTimeSecretID and
// Timestamp (open-nomad only) are set, the entry is an exchange. It then fails unless the token with this secret exists and
// has not expired.
type OneTimeTokenDeleteRequest struct {
	AccessorIDs     []string
	OneTimeSecretID string
	Timestamp       time.Time
	message.WriteRequest
}

// OneTimeTokenExchangeRequest is the request of ACL.ExchangeOneTimeToken.
type OneTimeTokenExchangeRequest struct {
	OneTimeSecretID string
	message.WriteRequest
}

// OneTimeTokenExchangeResponse is the reply of ACL.ExchangeOneTimeToken.
type OneTimeTokenExchangeResponse struct {
	Token *Token
	message.WriteMeta
}

// OneTimeTokenExpireRequest is the request of ACL.ExpireOneTimeTokens. The server sets Timestamp.
type OneTimeTokenExpireRequest struct {
	Timestamp time.Time
	message.WriteRequest
}

// OneTimeTokenUpsertRequest is the request of ACL.UpsertOneTimeToken.
type OneTimeTokenUpsertRequest struct {
	message.WriteRequest
}

// OneTimeTokenUpsertResponse is the reply of ACL.UpsertOneTimeToken.
type OneTimeTokenUpsertResponse struct {
	OneTimeToken *OneTimeToken
	message.WriteMeta
}
