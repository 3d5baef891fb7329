// Package endpoint answers the RPCs of a server: a file per noun, and the table of
// methods in methods.go.
//
//	request ─▶ nomad/rpc: who, where ─▶ handler ─▶ state (reads, blocking)
//	                                          ├─────▶ raft  (writes, then the index)
//	                                          └─────▶ node  (relayed over its session)
//
// A handler checks what a request says, asks authz which node or allocation the
// caller may touch, and either looks at a snapshot or writes one log entry. What
// comes out of state is never written to. Whatever a feature still to come would
// answer has a row too: it fails with an error that names the feature.
//
// The package starts no goroutine of its own, and keeps no state but the evaluations
// that are about to be written (evalWriter) and the logins that are under way (login.Desk).
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

// Raft writes the log.
type Raft interface {
	Apply(ctx context.Context, t nomad.MessageType, payload any) (resp any, index uint64, err error)
	AppliedIndex() uint64
	Stats() map[string]string
	ID() string
}

// Cluster says what this server knows of the others.
type Cluster interface {
	// Contact says whether a leader is known, and how long ago it was heard; zero
	// on the leader itself.
	Contact() (known bool, ago time.Duration)
	// Leader returns the RPC address and the ID of the leader, "" when none is known.
	Leader() (addr, id string)
	// Confirm says that this server leads now and that what any leader acknowledged
	// before the call is in state.
	Confirm(ctx context.Context) error
	// Self is this server as the others see it.
	Self() *nomad.ServerMember
	// Members are the servers of all regions as gossip knows them.
	Members() []*nomad.ServerMember
}

// Voters are the servers as the log has them.
type Voters interface {
	RaftServers() ([]*nomad.RaftServer, error)
	RemoveServer(ctx context.Context, id string) error
	// HandOver makes another server the leader, the most advanced one when id is "".
	HandOver(ctx context.Context, id, addr string) error
}

// Autopilot says how the servers of the region are.
type Autopilot interface {
	// ServerHealth is nil on a server that does not lead.
	ServerHealth() *nomad.OperatorHealthReply
}

// Peers reaches the other servers of the region.
type Peers interface {
	// NodeServer finds the server that a node is connected to.
	NodeServer(ctx context.Context, node string) (addr string, err error)
	// NodeSession is the session of a node's agent that another server holds a
	// connection of.
	NodeSession(ctx context.Context, node string) (id string, err error)
	Call(ctx context.Context, addr, method string, req, resp any) error
	Stream(ctx context.Context, addr, method string) (*rpc.Stream, error)
}

// Heartbeats keeps the timers of nodes.
type Heartbeats interface {
	// Reset counts a heartbeat and says within what time the next must come.
	Reset(node string) time.Duration
	// Clear stops counting for a node.
	Clear(node string)
	// Silent says in what time the node has missed its heartbeat, zero when it has.
	Silent(node string) time.Duration
	// Identified notes when the identity of a node that was heard ends.
	Identified(node string, ends time.Time)
}

// Locks keeps the timers of variables that are held.
type Locks interface {
	// Reset counts a lock's TTL anew, unless it is lost.
	Reset(v *nomad.VariableMetadata) bool
	// Clear stops counting for a lock.
	Clear(lockID string)
}

// Deployments changes deployments on a person's word.
type Deployments interface {
	Fail(ctx context.Context, id string) (*nomad.DeploymentUpdateResponse, error)
	Pause(ctx context.Context, id string) (*nomad.DeploymentUpdateResponse, error)
	Resume(ctx context.Context, id string) (*nomad.DeploymentUpdateResponse, error)
}

// Plans takes plans.
type Plans interface {
	Submit(ctx context.Context, plan *nomad.Plan) (*nomad.PlanResult, error)
}

// Issuer says what identities claim, and signs claims. Signing waits for a key
// until ctx ends.
type Issuer interface {
	Workload(s identity.Subject, now time.Time) *nomad.IdentityClaims
	Node(node *nomad.Node, ttl time.Duration, now time.Time) *nomad.IdentityClaims
	Introduction(intro *nomad.NodeIntroductionIdentityClaims, ttl time.Duration, now time.Time) *nomad.IdentityClaims
	Mint(ctx context.Context, claims *nomad.IdentityClaims) (nomad.Token, error)
	MintAll(ctx context.Context, claims []*nomad.IdentityClaims) ([]nomad.Token, error)
	// Ticket signs what stands for a caller's token in a call of a node.
	Ticket(ctx context.Context, t ticket.Ticket, now time.Time) (string, error)
	// ClientAssertion signs that this cluster is a client of an identity provider.
	ClientAssertion(ctx context.Context, a login.Assertion) (string, error)
	// Discovery is the OIDC discovery document, nil without an issuer.
	Discovery() *nomad.OIDCDiscoveryConfig
}

// Keyring shows the public halves of the signing keys, makes new ones, wrapped, and
// forgets those that are gone from state before it is told so. It encrypts variables:
// what needs a key for that waits for it until ctx ends.
type Keyring interface {
	PublicKeys() []*nomad.KeyringPublicKey
	NewRootKey(ctx context.Context, now time.Time) (*nomad.RootKey, error)
	NewRSAKey(ctx context.Context, now time.Time) (*nomad.RootKey, error)
	// AwaitActive waits until this server signs with a key.
	AwaitActive(ctx context.Context, kid string) error
	Remove(kid string)
	// Closed says why this server has not opened a key, "" when it has.
	Closed(kid string) string
	Encrypt(ctx context.Context, keyID string, text []byte) ([]byte, error)
	Decrypt(ctx context.Context, keyID string, data []byte) ([]byte, error)
}

// Nodes reaches clients over the sessions that they opened.
type Nodes interface {
	NodeCall(ctx context.Context, node, method string, req rpc.Request, resp any) error
	NodeStream(ctx context.Context, node, method string) (*rpc.Stream, error)
	NodeConn(node string) (since time.Time, ok bool)
}

// Limits bound what a job may ask for; zero values mean the defaults.
type Limits struct {
	DefaultPriority int // 50
	MaxPriority     int // 100
	MaxCount        int // 50,000 allocations
	MaxSource       int // 1,000,000 bytes of job source
}

// AccessControl says whether callers need rights, and what bounds the time of tokens
// that end.
type AccessControl struct {
	Enabled                  bool
	TokenMinTTL, TokenMaxTTL time.Duration // default 1 min and 24 h
}

// Config is what a Service is made of; every field is needed.
type Config struct {
	Region     string
	Datacenter string
	Name       string
	// AuthoritativeRegion is the one that Region follows; Region itself or "" is none.
	AuthoritativeRegion string
	// SignWithin bounds the wait for a signing key.
	SignWithin time.Duration
	// RotationThreshold is told to those who cache public keys.
	RotationThreshold time.Duration
	Limits            Limits
	Introduction      Introduction
	Access            AccessControl
	Search            search.Limits
	// TokensToNodes lets nodes that accept no tickets get the tokens of those who call them.
	TokensToNodes bool
	// BootstrapReset is the index that an operator wrote down to make a first token
	// anew, zero when there is none.
	BootstrapReset func() (uint64, error)
	// LeaderToken is the token of the leader's own calls, "" while this server does not
	// lead. Core evaluations carry it to whoever processes them.
	LeaderToken func() string

	Store      func() *state.Store // the store of now: a restore replaces it
	Raft       Raft
	Cluster    Cluster
	Voters     Voters
	Autopilot  Autopilot
	Peers      Peers
	Broker     *broker.Broker
	Blocked    *broker.Blocked
	Plans      Plans
	Snapshots  Snapshots
	Events     *stream.Broker // nil keeps no events
	Heartbeats Heartbeats
	Locks      Locks
	Deploys    Deployments
	Issuer     Issuer
	Keyring    Keyring
	Nodes      func() Nodes // known only once the transport was made of the table
	Now        func() time.Time
	Log        *slog.Logger
}

// Service holds what the handlers need. Its Methods are the table.
type Service struct {
	cfg   Config
	log   *slog.Logger
	evals evalWriter
	desk  *login.Desk
}

// New makes a Service.
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
		return index, err // it was applied, and refused there
	}
	if err != nil {
		return 0, fmt.Errorf("write to the log: %w", err)
	}
	if failed, ok := resp.(error); ok {
		return index, failed
	}
	return index, nil
}

// signing bounds the wait for a signing key.
func (s *Service) signing(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.cfg.SignWithin)
}

// unfit turns a fault of the request into a 400.
func unfit(err error) error {
	var coded *nomad.CodedError
	if err == nil || errors.As(err, &coded) {
		return err
	}
	return nomad.Errorf(400, "%s", err.Error())
}
