// Package ticket creates and verifies the credential with which a server calls a node on behalf
// of a caller. The node never gets the caller's token.
//
//	caller ──token──▶ server: authenticates, authorizes ──ticket──▶ node: verifies, serves
//
// A ticket is a JWT, signed with a root key of the servers, with the prefix "nomad-ticket:". It
// is valid for seconds, for one call of one method, on one allocation or node, at one node:
//
//	header   alg, kid, typ = "nomad-ticket+jwt"
//	payload  aud = node ID, iat, nbf, exp, jti,
//	         nomad_ticket = {method, object, rights, kind, accessor, alloc}
//
// The type separates tickets from tokens: verifiers of tokens refuse tickets, and a Verifier
// refuses tokens. A credential without the prefix is never parsed as a ticket. One with the
// prefix is never accepted as a token, not even by a server of another implementation.
//
// A Verifier caches the public keys and the IDs of used tickets. Both have limits. No goroutine
// of the package outlives the call that started it.
package ticket

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/internal/jwt"
	"github.com/open-nomad/open-nomad/nomad"
)

// The lifetime of a ticket, and the tolerated difference between the clocks of a server and a
// node.
const (
	TTL    = 30 * time.Second
	Leeway = time.Minute
)

// The format of a ticket.
const (
	prefix = "nomad-ticket:"
	typ    = "nomad-ticket+jwt"
)

// Ticket is what a ticket grants, and its caller.
type Ticket struct {
	// Node is the ID of the node that may serve the call.
	Node string `json:"-"`
	// Method is the name of the RPC at the node.
	Method string `json:"method"`
	// Object is the ID of the allocation or node that the call is about.
	Object string `json:"object"`
	// Rights holds the caller's rights beyond those that every caller of the method has. Only
	// the node knows whether the call needs them.
	Rights []string `json:"rights,omitempty"`
	// Kind, Accessor and Alloc identify the caller in the log. They grant nothing.
	Kind     string `json:"kind,omitempty"`
	Accessor string `json:"accessor,omitempty"`
	Alloc    string `json:"alloc,omitempty"`
}

// Grants reports whether the caller has the right.
func (t *Ticket) Grants(right string) bool { return slices.Contains(t.Rights, right) }

// claims is the payload of a ticket.
type claims struct {
	Audience  string  `json:"aud"`
	IssuedAt  int64   `json:"iat"`
	NotBefore int64   `json:"nbf"`
	Expiry    int64   `json:"exp"`
	ID        string  `json:"jti"`
	Ticket    *Ticket `json:"nomad_ticket"`
}

// Is reports whether a credential has the form of a ticket.
func Is(credential string) bool { return strings.HasPrefix(credential, prefix) }

// Accepted reports whether the client agent of a node accepts tickets.
func Accepted(n *nomad.Node) bool { return n.Attributes[nomad.NodeTicketAttribute] != "" }

// Key signs tickets.
type Key interface {
	SignAs(typ string, payload any) (string, error)
}

// Sign returns a ticket that is valid from now.
func Sign(key Key, t Ticket, now time.Time) (string, error) {
	if t.Node == "" || t.Method == "" || t.Object == "" {
		return "", fmt.Errorf("sign a ticket for %q: node, method and object are required", t.Method)
	}
	raw, err := key.SignAs(typ, claims{Audience: t.Node, IssuedAt: now.Unix(), NotBefore: now.Unix(),
		Expiry: now.Add(TTL).Unix(), ID: nomad.NewID(), Ticket: &t})
	if err != nil {
		return "", fmt.Errorf("sign a ticket for %s: %w", t.Method, err)
	}
	return prefix + raw, nil
}

// Keys returns the public keys of the servers. fresh requests the keys of the leader.
type Keys func(ctx context.Context, fresh bool) ([]jwt.PublicKey, error)
