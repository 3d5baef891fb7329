package acls

import (
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// OneTimeTokenTTL is how long a one-time token can be exchanged.
const OneTimeTokenTTL = 10 * time.Minute

// OneTimeToken stands for an ACL token: who brings its secret first is given that token.
type OneTimeToken struct {
	OneTimeSecretID string
	AccessorID      string
	ExpiresAt       time.Time
	CreateIndex     uint64
	ModifyIndex     uint64
}

// HasExpired reports whether the time of the token is over.
func (t *OneTimeToken) HasExpired(now time.Time) bool { return !t.ExpiresAt.After(now) }

// String shows the accessor of the token it stands for only.
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

// OneTimeTokenDeleteRequest is the log entry that removes the one-time tokens of ACL
// tokens. OneTimeSecretID and Timestamp (open-nomad only) make it an exchange: the entry fails
// unless that very token is there then and has not expired.
type OneTimeTokenDeleteRequest struct {
	AccessorIDs     []string
	OneTimeSecretID string
	Timestamp       time.Time
	nomad.WriteRequest
}

// OneTimeTokenExchangeRequest is the request of ACL.ExchangeOneTimeToken.
type OneTimeTokenExchangeRequest struct {
	OneTimeSecretID string
	nomad.WriteRequest
}

// OneTimeTokenExchangeResponse is the reply of ACL.ExchangeOneTimeToken.
type OneTimeTokenExchangeResponse struct {
	Token *Token
	nomad.WriteMeta
}

// OneTimeTokenExpireRequest is the request of ACL.ExpireOneTimeTokens. Timestamp is set
// by the server.
type OneTimeTokenExpireRequest struct {
	Timestamp time.Time
	nomad.WriteRequest
}

// OneTimeTokenUpsertRequest is the request of ACL.UpsertOneTimeToken.
type OneTimeTokenUpsertRequest struct {
	nomad.WriteRequest
}

// OneTimeTokenUpsertResponse is the reply of ACL.UpsertOneTimeToken.
type OneTimeTokenUpsertResponse struct {
	OneTimeToken *OneTimeToken
	nomad.WriteMeta
}
