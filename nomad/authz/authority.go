// Package authz says who calls, and what they may do.
//
// A credential is nothing, a secret ID (a UUID) or a signed token. What is asked
// of it depends on the rule of the method (compat/identity.md section 5):
//
//	anonymous, token, management ─▶ general: a token that is given must be good;
//	                                while ACLs are off, no secret ID is looked at
//	node                         ─▶ the secret ID or the identity of a node
//	node register, node status   ─▶ what may register a node
//	server                       ─▶ a caller of this process, or the identity that
//	                                another server made for this call
//	server or certificate        ─▶ as server, or the TLS certificate of a server of
//	                                this region
//
// With TLS and verify_server_hostname the rules node, node register, node status and server first
// ask for the certificate of a server, or of a client or a server, of this region. The rule server
// or certificate checks the certificate that it admits by without that setting, too.
//
// A workload identity is only as good as its allocation: once that is gone or
// over, so is the token. Handlers then ask which node or allocation it may touch.
//
// What an admitted caller may do is its Access: everything while ACLs are off and with a
// management token; what policies grant to a token, to its roles, and to who has none
// (the policy "anonymous"); to a workload what policies for its job, group or task grant.
// A policy that cannot be read takes every right from who has it. Nodes read nodes and
// agents.
//
// Whatever is wrong with a credential, its bearer gets one answer. Why is told to the
// debug log, which names no credential. The package keeps the leader's token and the
// rights of callers that it saw; it starts no goroutine and never logs a credential.
package authz

import (
	"context"
	"crypto/subtle"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/open-nomad/open-nomad/internal/certs"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/acls"
	"github.com/open-nomad/open-nomad/nomad/keyring"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// What ACLsDisabled and Leader tokens are called.
const (
	ACLsDisabledAccessor = "acls-disabled"
	LeaderAccessor       = "leader"
	anonymousAccessor    = acls.AnonymousAccessor
)

// Verifier checks a signed token.
type Verifier interface {
	Verify(raw string, now time.Time) (*nomad.IdentityClaims, error)
}

// Authority authenticates callers and answers what they may do. It is an
// rpc.Authenticator.
type Authority struct {
	enforce  bool
	store    func() *state.Store
	verify   Verifier
	now      func() time.Time
	certs    *certs.Store
	log      *slog.Logger
	leader   atomic.Pointer[string]
	policies policies
}

// Config is what an Authority is made of.
type Config struct {
	// Enforce says that callers need rights.
	Enforce bool
	// Store is the current state.
	Store  func() *state.Store
	Tokens Verifier
	Now    func() time.Time
	// Certs is nil without TLS.
	Certs *certs.Store
	Log   *slog.Logger
}

// New returns an Authority.
func New(c Config) *Authority {
	return &Authority{enforce: c.Enforce, store: c.Store, verify: c.Tokens, now: c.Now, certs: c.Certs, log: c.Log}
}

// errPast is the answer to a token whose time is over: the same as to any other that
// is refused, yet Node.Register can tell.
var errPast = past{}

type past struct{}

func (past) Error() string   { return nomad.ErrPermissionDenied.Error() }
func (past) Unwrap() []error { return []error{nomad.ErrPermissionDenied, rpc.ErrExpired} }

// Lead makes the token of the leader's own calls; end makes it worthless again.
func (a *Authority) Lead() (token string, end func()) {
	token = nomad.NewID()
	a.leader.Store(&token)
	return token, func() { a.leader.CompareAndSwap(&token, nil) }
}

// Token returns the token of the leader's own calls, "" while this server does not
// lead.
func (a *Authority) Token() string {
	if own := a.leader.Load(); own != nil {
		return *own
	}
	return ""
}

// Authenticate says who holds the token. Errors are nomad.ErrPermissionDenied and say
// nothing more; they hold rpc.ErrExpired for a token that was good once, and certs.ErrPeer,
// with its reason, when the caller's certificate is not one for the rule.
func (a *Authority) Authenticate(_ context.Context, token string, rule rpc.Rule, conn *rpc.Conn) (*acls.AuthenticatedIdentity, error) {
	id := &acls.AuthenticatedIdentity{}
	if conn != nil {
		id.RemoteIP = conn.RemoteIP()
		if p := conn.Peer(); p != nil {
			id.TLSName = p.Name()
		}
		if err := a.certificate(rule, conn.Peer()); err != nil {
			return id, nomad.Denied("%w", err)
		}
	}
	switch rule {
	case rpc.ServerOnly:
		if conn == nil {
			return id, nil
		}
		return id, a.server(id, token)
	case rpc.ServerOrCertificate:
		if conn == nil {
			return id, nil
		}
		return id, a.serverOrCertificate(id, token, conn.Peer())
	case rpc.NodeOnly:
		return id, a.node(id, token)
	case rpc.NodeRegister, rpc.NodeStatus:
		return id, a.registrar(id, token)
	}
	return id, a.general(id, token)
}

// certificate refuses a connection of the wrong role. Nobody else asks for roles but
// the handshake and Raft.
func (a *Authority) certificate(rule rpc.Rule, peer *certs.Peer) error {
	switch rule {
	case rpc.ServerOnly:
		return a.certs.IsServer(peer)
	case rpc.NodeOnly, rpc.NodeRegister, rpc.NodeStatus:
		return a.certs.IsAgent(peer)
	}
	return nil
}

// general admits everybody whose token, if any, is good. While ACLs are off no secret
// is looked at but the leader's.
func (a *Authority) general(id *acls.AuthenticatedIdentity, token string) error {
	switch {
	case a.isLeader(token):
		id.ACLToken = leaderToken()
		return nil
	case !a.enforce && (token == "" || nomad.IsUUID(token)):
		id.ACLToken = &acls.Token{AccessorID: ACLsDisabledAccessor, Name: "ACLs disabled", Type: acls.ManagementToken}
		return nil
	case token == "":
		id.ACLToken = anonymousToken()
		return nil
	case nomad.IsUUID(token):
		return a.holder(id, token)
	}
	claims, err := a.claims(token)
	if err != nil {
		return err
	}
	if claims.ServerIdentityClaims != nil || claims.NodeIntroductionIdentityClaims != nil {
		return nomad.ErrPermissionDenied // good for what servers, or new nodes, call: for nothing else
	}
	if w := claims.WorkloadIdentityClaims; w != nil {
		if err := a.alive(w); err != nil {
			return err
		}
	}
	if err := a.admitted(claims); err != nil {
		return err
	}
	id.Claims = claims
	return nil
}

// server admits the identity of a server: only servers hold the keys that sign it.
func (a *Authority) server(id *acls.AuthenticatedIdentity, token string) error {
	if token == "" || nomad.IsUUID(token) {
		return nomad.ErrPermissionDenied
	}
	claims, err := a.claims(token)
	if err != nil {
		return err
	}
	if s := claims.ServerIdentityClaims; s == nil || s.ServerID == "" {
		return nomad.ErrPermissionDenied
	}
	id.Claims = claims
	return nil
}

// serverOrCertificate admits the callers that the rule rpc.ServerOnly admits, and those whose
// certificate proves that they are servers of this region. A caller that was admitted by its
// certificate has no claims, whatever its token is.
func (a *Authority) serverOrCertificate(id *acls.AuthenticatedIdentity, token string, peer *certs.Peer) error {
	err := a.certs.IsServer(peer)
	if err == nil {
		err = a.server(id, token)
	}
	if err == nil {
		return nil
	}
	if missing := a.certs.ProvesServer(peer, a.now()); missing != nil {
		if errors.Is(err, nomad.ErrPermissionDenied) || errors.Is(err, certs.ErrPeer) {
			err = nomad.Denied("needs the identity of a server, or TLS: %w", missing)
		}
		return err
	}
	return nil
}

// node admits the secret ID or the identity of a node.
func (a *Authority) node(id *acls.AuthenticatedIdentity, token string) error {
	if token == "" {
		return nomad.ErrPermissionDenied
	}
	if nomad.IsUUID(token) {
		return a.secret(id, token)
	}
	claims, err := a.claims(token)
	if err != nil {
		return err
	}
	n := claims.NodeIdentityClaims
	if n == nil || n.NodePool == "" || n.NodeID == "" {
		return nomad.ErrPermissionDenied
	}
	if err := a.admitted(claims); err != nil {
		return err
	}
	id.Claims, id.ClientID = claims, n.NodeID
	return nil
}

// registrar admits what may register a node or say how it is.
func (a *Authority) registrar(id *acls.AuthenticatedIdentity, token string) error {
	switch {
	case token == "":
		id.ACLToken = anonymousToken()
		return nil
	case a.isLeader(token):
		id.ACLToken = leaderToken()
		return nil
	case nomad.IsUUID(token):
		return a.secret(id, token)
	}
	claims, err := a.claims(token)
	if claims != nil && (claims.WorkloadIdentityClaims != nil || claims.ServerIdentityClaims != nil) {
		return nomad.ErrPermissionDenied
	}
	if err != nil {
		return err
	}
	if a.superseded(claims) {
		return nomad.ErrPermissionDenied
	}
	id.Claims = claims
	return nil
}

// admitted refuses the identity of a node that was purged, and one from before the node
// was admitted again. A node that state does not have may have joined a moment ago: this
// server may not have the entry yet.
func (a *Authority) admitted(claims *nomad.IdentityClaims) error {
	n := claims.NodeIdentityClaims
	if n == nil {
		return nil
	}
	_, purged := a.store().Snapshot().Purged(nil, n.NodeID)
	if purged || a.superseded(claims) {
		a.log.Debug("refused a token", "node", n.NodeID, "err", "the node was purged")
		return nomad.ErrPermissionDenied
	}
	return nil
}

// superseded reports whether claims are those of a node that was admitted again since.
// Registrations and heartbeats of a purged node pass: it must learn that it is unknown.
func (a *Authority) superseded(claims *nomad.IdentityClaims) bool {
	if claims.NodeIdentityClaims == nil {
		return false
	}
	n := a.store().Snapshot().Node(nil, claims.NodeIdentityClaims.NodeID)
	return n != nil && claims.IssuedAt < n.IdentitiesSince
}

// holder finds the token, or the node, that a secret ID belongs to.
func (a *Authority) holder(id *acls.AuthenticatedIdentity, secret string) error {
	t := a.store().Snapshot().ACLTokenBySecret(nil, secret)
	switch {
	case t == nil:
		return a.secret(id, secret)
	case t.HasExpired(a.now()):
		a.log.Debug("refused a token", "accessor", t.AccessorID, "err", "its time is over")
		return errPast
	}
	id.ACLToken = t.WithoutSecret()
	return nil
}

// secret finds the node that holds a secret ID.
func (a *Authority) secret(id *acls.AuthenticatedIdentity, secret string) error {
	n := a.store().Snapshot().NodeBySecret(nil, secret)
	if n == nil {
		return nomad.ErrPermissionDenied
	}
	id.ClientID = n.ID
	return nil
}

// claims verifies a signed token.
func (a *Authority) claims(token string) (*nomad.IdentityClaims, error) {
	claims, err := a.verify.Verify(token, a.now())
	if err == nil {
		return claims, nil
	}
	a.log.Debug("refused a token", "err", err)
	switch {
	case errors.Is(err, rpc.ErrExpired):
		return claims, errPast
	case errors.Is(err, keyring.ErrClosed): // nobody can say whether it is good
		return nil, nomad.Errorf(http.StatusServiceUnavailable, "this server cannot check the token now: its root key is closed")
	}
	return nil, nomad.ErrPermissionDenied
}

// alive says whether the allocation of a workload identity still lives.
func (a *Authority) alive(w *nomad.WorkloadIdentityClaims) error {
	alloc := a.store().Snapshot().Alloc(nil, w.AllocationID)
	why := ""
	switch {
	case alloc == nil || alloc.Job == nil || alloc.Namespace != w.Namespace:
		why = "allocation does not exist"
	case alloc.ClientTerminalStatus():
		why = "allocation is terminal"
	default:
		return nil
	}
	a.log.Debug("refused a token", "alloc", w.AllocationID, "err", why)
	return nomad.ErrPermissionDenied
}

func (a *Authority) isLeader(token string) bool {
	own := a.leader.Load()
	return own != nil && subtle.ConstantTimeCompare([]byte(*own), []byte(token)) == 1
}

func leaderToken() *acls.Token {
	return &acls.Token{AccessorID: LeaderAccessor, Name: "Leader Token", Type: acls.ManagementToken}
}

// anonymousToken is held by who has none.
func anonymousToken() *acls.Token {
	return &acls.Token{AccessorID: anonymousAccessor, Name: "Anonymous Token", Type: acls.ClientToken,
		Policies: []string{acls.PolicyAnonymous}}
}
