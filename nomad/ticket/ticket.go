// Package ticket makes and checks the credential with which a server calls a node on behalf
// of a caller. The node never gets the caller's token.
//
//	caller ──token──▶ server: authenticates, authorizes ──ticket──▶ node: verifies, serves
//
// A ticket is a JWT, signed with a root key of the servers, behind the prefix "nomad-ticket:".
// It is valid for one call of one method, on one allocation or node, at one node, within
// seconds:
//
//	header   alg, kid, typ = "nomad-ticket+jwt"
//	payload  aud = node ID, iat, nbf, exp, jti,
//	         nomad_ticket = {method, object, rights, kind, accessor, alloc}
//
// The type keeps both kinds apart: what verifies tokens refuses tickets, and a Verifier
// refuses tokens. Without the prefix a ticket is not looked at; with it nobody takes it for a
// token, also not a server of another implementation.
//
// A Verifier keeps the public keys and the IDs of the tickets that were used. Both are
// bounded. The package starts no goroutine that outlives a call.
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

// How long a ticket is valid, and how far the clocks of a server and a node may differ.
const (
	TTL    = 30 * time.Second
	Leeway = time.Minute
)

// The form of a ticket.
const (
	prefix = "nomad-ticket:"
	typ    = "nomad-ticket+jwt"
)

// Ticket is what a ticket grants, and who asked for it.
type Ticket struct {
	// Node is the ID of the node that may serve the call.
	Node string `json:"-"`
	// Method is the RPC, under the name that the node has for it.
	Method string `json:"method"`
	// Object is the ID of the allocation or node that the call is about.
	Object string `json:"object"`
	// Rights are the rights that the server found beyond those that every caller of the
	// method has. Only the node knows whether the call needs them.
	Rights []string `json:"rights,omitempty"`
	// Kind, Accessor and Alloc name the caller for the log. They grant nothing.
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

// Known reports whether the agent of a node accepts tickets.
func Known(n *nomad.Node) bool { return n.Attributes[nomad.NodeTicketAttribute] != "" }

// Key signs.
type Key interface {
	SignAs(typ string, payload any) (string, error)
}

// Sign makes a ticket that is valid from now on.
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

// Keys returns the public keys of the servers. Fresh asks for what the leader has.
type Keys func(ctx context.Context, fresh bool) ([]jwt.PublicKey, error)
