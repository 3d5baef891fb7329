// Package handler contains what all RPC handlers share: the configuration, the state, writes to
// the log, blocking reads, and checks of the caller's rights.
//
//	handler ─▶ Read, ReadList ─▶ snapshot, again whenever the watched data changes
//	        └▶ Apply, UpsertEvals ─▶ one log entry ─▶ its index
//
// The packages with RPC handlers, such as nomad/endpoint/jobs, embed a Core in their Service. A
// handler never modifies an object from state. This package has no RPC methods. It does not
// decide who may call a method: the method table in nomad/endpoint does. It starts no
// goroutines. Its only state is the evaluations that wait to be written (Batch).
package handler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/broker"
	"github.com/open-nomad/open-nomad/nomad/consensus"
	"github.com/open-nomad/open-nomad/nomad/consul"
	"github.com/open-nomad/open-nomad/nomad/identity"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/nomad/kinds"
	"github.com/open-nomad/open-nomad/nomad/login"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/ticket"
	"github.com/open-nomad/open-nomad/plugins/schema"
)

// Raft applies log entries.
type Raft interface {
	consensus.Log
	consensus.ResultLog
	AppliedIndex() uint64
	Stats() map[string]string
	ID() string
}

// Cluster returns the leader and the members of the cluster, as seen by this server.
type Cluster interface {
	// Contact reports whether a leader is known, and the time since the last contact. The
	// time is zero on the leader.
	Contact() (known bool, ago time.Duration)
	// Leader returns the RPC address and the ID of the leader, or "" when none is known.
	Leader() (addr, id string)
	// Confirm returns nil if this server is the leader and its state has all writes that any
	// leader acknowledged before the call.
	Confirm(ctx context.Context) error
	// Self returns this server as a gossip member.
	Self() *message.ServerMember
	// Members returns the servers of all regions in the gossip pool.
	Members() []*message.ServerMember
}

// ServerCall is a request between servers. Its token is that of the calling server.
type ServerCall = rpc.ServerCall

// Peers calls the other servers of the region.
type Peers interface {
	// NodeServer returns the address of the server that a node is connected to.
	NodeServer(ctx context.Context, node string) (addr string, err error)
	// NodeSession returns the session of a node that is connected to another server.
	NodeSession(ctx context.Context, node string) (id string, err error)
	// AsServer calls a method for servers only, at the server that a node is connected to.
	AsServer(ctx context.Context, node, method string, req ServerCall, resp any) error
	Call(ctx context.Context, addr, method string, req, resp any) error
	Stream(ctx context.Context, addr, method string) (*rpc.Stream, error)
}

// Issuer creates the claims of identities and signs them. Signing waits for a key until ctx
// ends.
type Issuer interface {
	Workload(s identity.Subject, now time.Time) *idtoken.Claims
	// ClaimsDigests reports whether the claims of a subject contain the digests of its artifacts.
	ClaimsDigests(s identity.Subject) bool
	Node(node *nomad.Node, ttl time.Duration, now time.Time) *idtoken.Claims
	Introduction(intro *idtoken.NodeIntroductionIdentityClaims, ttl time.Duration, now time.Time) *idtoken.Claims
	Mint(ctx context.Context, claims *idtoken.Claims) (idtoken.Token, error)
	MintAll(ctx context.Context, claims []*idtoken.Claims) ([]idtoken.Token, error)
	// Ticket signs the ticket that replaces a caller's token in a call to a node.
	Ticket(ctx context.Context, t ticket.Ticket, now time.Time) (string, error)
	// ClientAssertion signs an assertion that authenticates this cluster as a client of an
	// identity provider.
	ClientAssertion(ctx context.Context, a login.Assertion) (string, error)
	// Discovery returns the OIDC discovery document, nil without an issuer.
	Discovery() *idtoken.DiscoveryConfig
}

// Nodes calls clients over the sessions that they opened.
type Nodes interface {
	NodeCall(ctx context.Context, node, method string, req rpc.Request, resp any) error
	NodeStream(ctx context.Context, node, method string) (*rpc.Stream, error)
	NodeConn(node string) (since time.Time, ok bool)
}

// Config configures a Core. All fields are required.
type Config struct {
	Region string
	Kinds  kinds.Table // built-in kinds of drivers
	// Schemas are those of the drivers of the nodes.
	Schemas *schema.Set
	// OnlyOurs returns an error (409) with the name of a feature if servers of the region may be of
	// another build, which do not have it.
	OnlyOurs func(feature string) error
	// Consul is what the servers do with services of provider "consul".
	Consul *consul.Services
	// SignWithin is the maximum time to wait for a signing key.
	SignWithin time.Duration

	Store   func() *state.Store // returns the current store, which a restore replaces
	Raft    Raft
	Cluster Cluster
	Peers   Peers
	Nodes   func() Nodes // a function, because the transport is built from the method table
	Broker  *broker.Broker
	Issuer  Issuer
	Now     func() time.Time
	Log     *slog.Logger
}

// Core holds what all handlers share.
type Core struct {
	Config
	evals *Batch[*nomad.Evaluation]
}

// New returns a Core.
func New(cfg Config) *Core {
	c := &Core{Config: cfg}
	c.evals = NewBatch(func(ctx context.Context, evals []*nomad.Evaluation) (uint64, error) {
		return c.Apply(ctx, message.EvalUpdateRequestType, &message.EvalUpdateRequest{Evals: evals})
	})
	return c
}

// Snapshot returns a snapshot of the current state.
func (c *Core) Snapshot() *state.Snapshot { return c.Store().Snapshot() }

// Apply writes one log entry and returns the index at which it was applied here.
func (c *Core) Apply(ctx context.Context, t message.CommandType, payload any) (uint64, error) {
	index, err := c.Raft.Apply(ctx, t, payload)
	if err == nil {
		rpc.Wrote(ctx)
	}
	if err != nil && index > 0 {
		return index, err // applied, but rejected by the FSM
	}
	if err != nil {
		return 0, fmt.Errorf("write to the Raft log: %w", err)
	}
	return index, nil
}

// ApplyFor writes one log entry whose result is an R.
func ApplyFor[R any](ctx context.Context, c *Core, t message.CommandType, payload any) (R, uint64, error) {
	out, index, err := consensus.ApplyFor[R](ctx, c.Raft, t, payload)
	if err == nil {
		rpc.Wrote(ctx)
	}
	if err != nil && index == 0 {
		err = fmt.Errorf("write to the Raft log: %w", err)
	}
	return out, index, err
}

// Written returns the reply to a write: the index of its log entry, or the error.
func Written(index uint64, err error) (*message.GenericResponse, error) {
	if err != nil {
		return nil, err
	}
	out := &message.GenericResponse{}
	out.Index = index
	return out, nil
}

// Signing returns a context that limits the wait for a signing key.
func (c *Core) Signing(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.SignWithin)
}

// BadRequest returns err with the status 400, unless err already has a status or is about the log and not the request:
// a call that found no leader is repeated by the server that forwarded it.
func BadRequest(err error) error {
	var coded *apierror.Coded
	if err == nil || errors.As(err, &coded) || errors.Is(err, apierror.ErrNoLeader) || errors.Is(err, apierror.ErrNotReady) ||
		errors.Is(err, apierror.ErrMaybeApplied) {
		return err
	}
	return apierror.Errorf(400, "%s", err.Error())
}

// UnixNow returns the time for log entries.
func (c *Core) UnixNow() int64 { return c.Now().UnixNano() }

// NotImplemented returns the error (501) of methods whose feature is not implemented yet.
func NotImplemented(feature string) error {
	return &apierror.Coded{Code: 501, Message: fmt.Sprintf("%s: not available yet", feature)}
}
