// Package endpoint handles the RPC methods of a server. It has one file per noun, and the
// table of methods in methods.go.
//
//	request ─▶ nomad/rpc: who, where ─▶ handler ─▶ state (reads, blocking)
//	                                          ├─────▶ raft  (writes, then the index)
//	                                          └─────▶ node  (relayed over its session)
//
// A handler validates the request and checks which nodes and allocations the caller may
// access. It then reads a snapshot or writes one log entry. Objects from state are never
// modified. Features that are not implemented yet have methods too, which fail with the name
// of the feature.
//
// The package has no long-lived goroutines. Its only state is the evaluations waiting to be
// written (evalWriter) and the pending logins (login.Desk).
package endpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/broker"
	"github.com/open-nomad/open-nomad/nomad/identity"
	"github.com/open-nomad/open-nomad/nomad/login"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/search"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/stream"
	"github.com/open-nomad/open-nomad/nomad/ticket"
)

// Raft applies log entries.
type Raft interface {
	Apply(ctx context.Context, t nomad.MessageType, payload any) (resp any, index uint64, err error)
	AppliedIndex() uint64
	Stats() map[string]string
	ID() string
}

// Cluster describes the servers that this server knows.
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
	Self() *nomad.ServerMember
	// Members returns the servers of all regions that gossip knows.
	Members() []*nomad.ServerMember
}

// Voters manages the servers in the Raft configuration.
type Voters interface {
	RaftServers() ([]*nomad.RaftServer, error)
	RemoveServer(ctx context.Context, id string) error
	// HandOver transfers leadership to a server, or to the most up-to-date one when id is "".
	HandOver(ctx context.Context, id, addr string) error
}

// Autopilot reports the health of the servers in the region.
type Autopilot interface {
	// ServerHealth returns nil on a server that is not the leader.
	ServerHealth() *nomad.OperatorHealthReply
}

// Peers calls the other servers of the region.
type Peers interface {
	// NodeServer returns the address of the server that a node is connected to.
	NodeServer(ctx context.Context, node string) (addr string, err error)
	// NodeSession returns the session of a node that is connected to another server.
	NodeSession(ctx context.Context, node string) (id string, err error)
	Call(ctx context.Context, addr, method string, req, resp any) error
	Stream(ctx context.Context, addr, method string) (*rpc.Stream, error)
}

// Heartbeats manages the heartbeat timers of nodes.
type Heartbeats interface {
	// Reset restarts the timer of a node and returns the TTL of the next heartbeat.
	Reset(node string) time.Duration
	// Clear stops the timer of a node.
	Clear(node string)
	// Silent returns the time until a node without further heartbeats counts as silent. It is
	// zero if the node is silent already.
	Silent(node string) time.Duration
	// Identified records when the identity of a node expires.
	Identified(node string, ends time.Time)
}

// Locks manages the TTL timers of variable locks.
type Locks interface {
	// Reset restarts the TTL of a lock. It reports false if the lock has expired.
	Reset(v *nomad.VariableMetadata) bool
	// Clear stops the timer of a lock.
	Clear(lockID string)
}

// Deployments changes deployments on request of an operator.
type Deployments interface {
	Fail(ctx context.Context, id string) (*nomad.DeploymentUpdateResponse, error)
	Pause(ctx context.Context, id string) (*nomad.DeploymentUpdateResponse, error)
	Resume(ctx context.Context, id string) (*nomad.DeploymentUpdateResponse, error)
}

// Plans submits plans to the plan queue.
type Plans interface {
	Submit(ctx context.Context, plan *nomad.Plan) (*nomad.PlanResult, error)
}

// Issuer creates the claims of identities and signs them. Signing waits for a key until ctx
// ends.
type Issuer interface {
	Workload(s identity.Subject, now time.Time) *nomad.IdentityClaims
	Node(node *nomad.Node, ttl time.Duration, now time.Time) *nomad.IdentityClaims
	Introduction(intro *nomad.NodeIntroductionIdentityClaims, ttl time.Duration, now time.Time) *nomad.IdentityClaims
	Mint(ctx context.Context, claims *nomad.IdentityClaims) (nomad.Token, error)
	MintAll(ctx context.Context, claims []*nomad.IdentityClaims) ([]nomad.Token, error)
	// Ticket signs the ticket that replaces a caller's token in a call to a node.
	Ticket(ctx context.Context, t ticket.Ticket, now time.Time) (string, error)
	// ClientAssertion signs an assertion that authenticates this cluster as a client of an
	// identity provider.
	ClientAssertion(ctx context.Context, a login.Assertion) (string, error)
	// Discovery returns the OIDC discovery document, nil without an issuer.
	Discovery() *nomad.OIDCDiscoveryConfig
}

// Keyring manages signing keys and encrypts variables. New keys are returned wrapped. Remove
// takes effect before the deletion is seen in state. Encryption and decryption wait for the
// key until ctx ends.
type Keyring interface {
	PublicKeys() []*nomad.KeyringPublicKey
	NewRootKey(ctx context.Context, now time.Time) (*nomad.RootKey, error)
	NewRSAKey(ctx context.Context, now time.Time) (*nomad.RootKey, error)
	// AwaitActive waits until this server signs with the key.
	AwaitActive(ctx context.Context, kid string) error
	Remove(kid string)
	// Closed returns why a key is not open, or "" if it is open.
	Closed(kid string) string
	Encrypt(ctx context.Context, keyID string, text []byte) ([]byte, error)
	Decrypt(ctx context.Context, keyID string, data []byte) ([]byte, error)
}

// Nodes calls clients over the sessions that they opened.
type Nodes interface {
	NodeCall(ctx context.Context, node, method string, req rpc.Request, resp any) error
	NodeStream(ctx context.Context, node, method string) (*rpc.Stream, error)
	NodeConn(node string) (since time.Time, ok bool)
}

// Limits are the limits of jobs. Zero values mean the defaults.
type Limits struct {
	DefaultPriority int // 50
	MaxPriority     int // 100
	MaxCount        int // 50,000 allocations
	MaxSource       int // 1,000,000 bytes of job source
}

// AccessControl configures access control and the TTL limits of tokens that expire.
type AccessControl struct {
	Enabled                  bool
	TokenMinTTL, TokenMaxTTL time.Duration // default 1 min and 24 h
}

// Config configures a Service. All fields are required unless noted.
type Config struct {
	Region     string
	Datacenter string
	Name       string
	// AuthoritativeRegion is the region that Region replicates from. It is Region itself or
	// "" if there is none.
	AuthoritativeRegion string
	// SignWithin is the maximum time to wait for a signing key.
	SignWithin time.Duration
	// RotationThreshold is returned to clients that cache public keys.
	RotationThreshold time.Duration
	Limits            Limits
	Introduction      Introduction
	Access            AccessControl
	Search            search.Limits
	// TokensToNodes allows relaying callers' tokens to nodes that do not accept tickets.
	TokensToNodes bool
	// BootstrapReset returns the index that an operator wrote to a file to repeat the ACL
	// bootstrap. It is zero without one.
	BootstrapReset func() (uint64, error)
	// LeaderToken returns the token of the leader's own calls, or "" on other servers. Core
	// evaluations carry it to their worker.
	LeaderToken func() string

	Store      func() *state.Store // returns the current store, which a restore replaces
	Raft       Raft
	Cluster    Cluster
	Voters     Voters
	Autopilot  Autopilot
	Peers      Peers
	Broker     *broker.Broker
	Blocked    *broker.Blocked
	Plans      Plans
	Snapshots  Snapshots
	Events     *stream.Broker // nil disables events
	Heartbeats Heartbeats
	Locks      Locks
	Deploys    Deployments
	Issuer     Issuer
	Keyring    Keyring
	Nodes      func() Nodes // a function, because the transport is built from the method table
	Now        func() time.Time
	Log        *slog.Logger
}

// Service handles the RPC methods. See Methods.
type Service struct {
	cfg   Config
	log   *slog.Logger
	evals evalWriter
	desk  *login.Desk
}

// New returns a Service. It sets the defaults of the config.
func New(cfg Config) *Service {
	l := &cfg.Limits
	l.DefaultPriority = cmp.Or(l.DefaultPriority, nomad.JobDefaultPriority)
	l.MaxPriority = cmp.Or(l.MaxPriority, nomad.JobDefaultMaxPriority)
	l.MaxCount = cmp.Or(l.MaxCount, nomad.JobDefaultMaxCount)
	l.MaxSource = cmp.Or(l.MaxSource, defaultMaxSource)
	i := &cfg.Introduction
	i.Enforcement = cmp.Or(i.Enforcement, nomad.NodeIntroductionEnforcementWarn)
	i.DefaultTTL = cmp.Or(i.DefaultTTL, defaultIntroductionTTL)
	i.MaxTTL = cmp.Or(i.MaxTTL, maxIntroductionTTL)
	f := &cfg.Search
	f.Gathered, f.Results, f.MinText = cmp.Or(f.Gathered, 20), cmp.Or(f.Results, 100), cmp.Or(f.MinText, 2)
	a := &cfg.Access
	a.TokenMinTTL = cmp.Or(a.TokenMinTTL, time.Minute)
	a.TokenMaxTTL = cmp.Or(a.TokenMaxTTL, 24*time.Hour)
	s := &Service{cfg: cfg, log: cfg.Log}
	s.desk = login.NewDesk(login.Config{Now: cfg.Now, Signer: assertions{s}})
	s.evals.write = func(ctx context.Context, evals []*nomad.Evaluation) (uint64, error) {
		return s.apply(ctx, nomad.EvalUpdateRequestType, &nomad.EvalUpdateRequest{Evals: evals})
	}
	return s
}

func (s *Service) store() *state.Store { return s.cfg.Store() }

func (s *Service) snapshot() *state.Snapshot { return s.store().Snapshot() }

// apply writes one log entry and returns the index at which it was applied here.
func (s *Service) apply(ctx context.Context, t nomad.MessageType, payload any) (uint64, error) {
	resp, index, err := s.cfg.Raft.Apply(ctx, t, payload)
	if err == nil {
		rpc.Wrote(ctx)
	}
	if err != nil && index > 0 {
		return index, err // applied, but rejected by the FSM
	}
	if err != nil {
		return 0, fmt.Errorf("write to the log: %w", err)
	}
	if failed, ok := resp.(error); ok {
		return index, failed
	}
	return index, nil
}

// signing returns a context that limits the wait for a signing key.
func (s *Service) signing(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.cfg.SignWithin)
}

// unfit returns err with the status 400 unless it has a status.
func unfit(err error) error {
	var coded *nomad.CodedError
	if err == nil || errors.As(err, &coded) {
		return err
	}
	return nomad.Errorf(400, "%s", err.Error())
}
