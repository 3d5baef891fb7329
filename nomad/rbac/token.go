package rbac

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// The types of ACL tokens, and the accessor of the anonymous token.
const (
	ClientToken       = "client"
	ManagementToken   = "management"
	AnonymousAccessor = "anonymous"

	// MaxExpiredBatchSize is the maximum number of expired tokens removed by one log entry.
	MaxExpiredBatchSize = 4096
)

// Token is an ACL token. SecretID is its secret. It is never logged, and leaves the servers only in the reply to the
// creator of the token.
type Token struct {
	AccessorID     string
	SecretID       string
	Name           string
	Type           string
	Policies       []string
	Roles          []*TokenRoleLink
	Global         bool
	Hash           []byte
	CreateTime     time.Time
	ExpirationTime *time.Time
	ExpirationTTL  time.Duration
	CreateIndex    uint64
	ModifyIndex    uint64
}

// TokenRoleLink refers to a role of a token. ID identifies the role on the wire. Name is set in replies.
type TokenRoleLink struct {
	ID   string
	Name string
}

// Management reports whether the token is a management token, which has all rights.
func (t *Token) Management() bool { return t != nil && t.Type == ManagementToken }

// HasExpired reports whether the token has expired.
func (t *Token) HasExpired(now time.Time) bool {
	return t != nil && t.ExpirationTime != nil && !t.ExpirationTime.IsZero() && !t.ExpirationTime.After(now)
}

// Canonicalize sets the IDs, the creation time and the expiration time of a new token.
func (t *Token) Canonicalize(now time.Time) {
	if t.AccessorID == "" {
		t.AccessorID = nomad.NewID()
	}
	if t.SecretID == "" {
		t.SecretID = nomad.NewID()
	}
	t.CreateTime = now.UTC()
	if t.ExpirationTime == nil && t.ExpirationTTL != 0 {
		end := t.CreateTime.Add(t.ExpirationTTL)
		t.ExpirationTime = &end
	}
}

// SetHash computes the digest of the fields that an operator can set. It stores the digest and returns it.
func (t *Token) SetHash() []byte {
	d := newDigest("token").text(t.Name, t.Type).flag(t.Global)
	d.list(slices.Sorted(slices.Values(t.Policies)))
	var roles []string
	for _, r := range t.Roles {
		if r != nil {
			roles = append(roles, r.ID)
		}
	}
	slices.Sort(roles)
	t.Hash = d.list(roles).sum()
	return t.Hash
}

// Stub returns the short form of the token for lists, without its secret.
func (t *Token) Stub() *TokenStub {
	return &TokenStub{AccessorID: t.AccessorID, Name: t.Name, Type: t.Type, Policies: t.Policies, Roles: t.Roles,
		Global: t.Global, Hash: t.Hash, CreateTime: t.CreateTime, ExpirationTime: t.ExpirationTime,
		CreateIndex: t.CreateIndex, ModifyIndex: t.ModifyIndex}
}

// WithoutSecret returns the token without its secret.
func (t *Token) WithoutSecret() *Token {
	if t == nil || t.SecretID == "" {
		return t
	}
	out := *t
	out.SecretID = ""
	return &out
}

// String returns the accessor only.
func (t *Token) String() string {
	if t == nil {
		return "token(none)"
	}
	return "token(" + t.AccessorID + ")"
}

// Format implements fmt.Formatter. Every verb prints the result of String.
func (t *Token) Format(f fmt.State, _ rune) { io.WriteString(f, t.String()) }

// LogValue implements slog.LogValuer with the result of String.
func (t *Token) LogValue() slog.Value { return slog.StringValue(t.String()) }

// MarshalJSON writes the TTL as a duration string such as "8h0m0s", or "" for zero.
func (t *Token) MarshalJSON() ([]byte, error) {
	type plain Token
	return json.Marshal(&struct {
		ExpirationTTL string
		*plain
	}{durationText(t.ExpirationTTL), (*plain)(t)})
}

// UnmarshalJSON accepts the TTL as a duration string such as "8h" or as a number of nanoseconds.
func (t *Token) UnmarshalJSON(b []byte) error {
	type plain Token
	in := &struct {
		ExpirationTTL json.RawMessage
		*plain
	}{plain: (*plain)(t)}
	if err := json.Unmarshal(b, in); err != nil {
		return err
	}
	return readDuration("ExpirationTTL", in.ExpirationTTL, &t.ExpirationTTL)
}

// durationText formats a duration for JSON, as "" if it is zero.
func durationText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// readDuration reads an optional duration, given as a string or in nanoseconds.
func readDuration(name string, raw json.RawMessage, to *time.Duration) error {
	var text string
	switch {
	case len(raw) == 0, json.Unmarshal(raw, &text) == nil && text == "":
		return nil
	case text == "":
		if err := json.Unmarshal(raw, to); err != nil {
			return fmt.Errorf("%s must be a duration such as \"8h\": %w", name, err)
		}
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	*to = d
	return nil
}

// TokenStub is a token without its secret.
type TokenStub struct {
	AccessorID     string
	Name           string
	Type           string
	Policies       []string
	Roles          []*TokenRoleLink
	Global         bool
	Hash           []byte
	CreateTime     time.Time
	ExpirationTime *time.Time
	CreateIndex    uint64
	ModifyIndex    uint64
}
