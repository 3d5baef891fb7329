// Package authz authenticates callers and determines their rights.
//
// A credential is empty, a secret ID (a UUID) or a signed token. The accepted credentials depend on
// the rule of the method:
//
//	anonymous, token, management ─▶ general: a token, if present, must be valid;
//	                                without ACLs, secret IDs are not checked
//	node                         ─▶ the secret ID or the identity of a node
//	node register, node status   ─▶ a caller that may register a node
//	server                       ─▶ a caller of this process, or the identity that
//	                                another server made for this call
//	server or certificate        ─▶ as server, or the TLS certificate of a server of
//	                                this region
//
// With TLS and verify_server_hostname, four rules first require a certificate of this region. The
// rule server requires that of a server. The rules node, node register and node status require that
// of a client or a server. The rule server or certificate checks the certificate without that
// setting, too.
//
// A workload identity is valid as long as its allocation. If the allocation is deleted or terminal,
// the token is rejected. The RPC handlers check which node or allocation a caller may access.
//
// The rights of an authenticated caller are its Access. Without ACLs, and with a management token,
// it has all rights. A token has the rights of its policies and roles; a caller without a token
// those of the policy "anonymous". A workload has the rights of the policies for its job, group or
// task. A policy that cannot be parsed removes all rights of its holders. Nodes may read nodes and
// agents.
//
// A rejected caller always gets the same error. The reason is in the debug log, without the
// credential. The package keeps the leader's token and a cache of rights. It starts no goroutine
// and never logs a credential.
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
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/nomad/keyring"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Accessor IDs of built-in tokens.
const (
	ACLsDisabledAccessor = "acls-disabled"
	LeaderAccessor       = "leader"
	anonymousAccessor    = rbac.AnonymousAccessor
)

// Verifier verifies a signed token.
type Verifier interface {
	Verify(raw string, now time.Time) (*idtoken.Claims, error)
}

// Authority authenticates callers and returns their rights. It implements rpc.Authenticator.
type Authority struct {
	enforce  bool
	store    func() *state.Store
	verify   Verifier
	keys     func(*state.Snapshot) bool
	now      func() time.Time
	certs    *certs.Store
	log      *slog.Logger
	leader   atomic.Pointer[string]
	policies policies
}

// Config configures an Authority.
type Config struct {
	// Enforce enables ACLs.
	Enforce bool
	// Store returns the current state.
	Store  func() *state.Store
	Tokens Verifier
	// Keys reports whether workloads read the variables of Consul keys without a policy. Nil means that they do not.
	Keys func(*state.Snapshot) bool
	Now  func() time.Time
	// Certs is nil without TLS.
	Certs *certs.Store
	Log   *slog.Logger
}

// New returns an Authority.
func New(c Config) *Authority {
	return &Authority{enforce: c.Enforce, store: c.Store, verify: c.Tokens, keys: c.Keys, now: c.Now, certs: c.Certs, log: c.Log}
}

// errPast is the error for an expired token: its text equals that of other rejections, but
// Node.Register can detect it.
var errPast = past{}

type past struct{}

func (past) Error() string { return apierror.ErrPermissionDenied.Error() }
func (past) Unwrap() []error {
	return []error{apierror.ErrPermissionDenied, apierror.ErrIdentityExpired}
}

// Lead creates the token for the leader's own calls; end invalidates it.
func (a *Authority) Lead() (token string, end func()) {
	token = nomad.NewID()
	a.leader.Store(&token)
	return token, func() { a.leader.CompareAndSwap(&token, nil) }
}

// Token returns the token for the leader's own calls, or "" if this server is not the leader.
func (a *Authority) Token() string {
	if own := a.leader.Load(); own != nil {
		return *own
	}
	return ""
}

// Authenticate returns the identity of the token's holder. Every error is
// apierror.ErrPermissionDenied. It also wraps apierror.ErrIdentityExpired for an expired token, and certs.ErrPeer
// with the reason if the rule does not accept the caller's certificate.
func (a *Authority) Authenticate(_ context.Context, token string, rule rpc.Rule, conn *rpc.Conn) (*rbac.AuthenticatedIdentity, error) {
	id := &rbac.AuthenticatedIdentity{}
	if conn != nil {
		id.RemoteIP = conn.RemoteIP()
		if p := conn.Peer(); p != nil {
			id.TLSName = p.Name()
		}
		if err := a.certificate(rule, conn.Peer()); err != nil {
			return id, apierror.Denied("%w", err)
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

// certificate rejects a connection with the wrong certificate role. Other than here, only the
// handshake and Raft check roles.
func (a *Authority) certificate(rule rpc.Rule, peer *certs.Peer) error {
	switch rule {
	case rpc.ServerOnly:
		return a.certs.IsServer(peer)
	case rpc.NodeOnly, rpc.NodeRegister, rpc.NodeStatus:
		return a.certs.IsAgent(peer)
	}
	return nil
}

// general admits callers with a valid token or none. Without ACLs it checks no secret ID except the
// leader's.
func (a *Authority) general(id *rbac.AuthenticatedIdentity, token string) error {
	switch {
	case a.isLeader(token):
		id.ACLToken = leaderToken()
		return nil
	case !a.enforce && (token == "" || nomad.IsUUID(token)):
		id.ACLToken = &rbac.Token{AccessorID: ACLsDisabledAccessor, Name: "ACLs disabled", Type: rbac.ManagementToken}
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
		return apierror.ErrPermissionDenied // valid only for calls of servers or new nodes
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

// server admits a server identity: only servers hold the keys that sign it.
func (a *Authority) server(id *rbac.AuthenticatedIdentity, token string) error {
	if token == "" || nomad.IsUUID(token) {
		return apierror.ErrPermissionDenied
	}
	claims, err := a.claims(token)
	if err != nil {
		return err
	}
	if s := claims.ServerIdentityClaims; s == nil || s.ServerID == "" {
		return apierror.ErrPermissionDenied
	}
	id.Claims = claims
	return nil
}

// serverOrCertificate admits the callers of rule rpc.ServerOnly and those with a server certificate
// of this region. A caller admitted by its certificate has no claims, whatever its token.
func (a *Authority) serverOrCertificate(id *rbac.AuthenticatedIdentity, token string, peer *certs.Peer) error {
	err := a.certs.IsServer(peer)
	if err == nil {
		err = a.server(id, token)
	}
	if err == nil {
		return nil
	}
	if missing := a.certs.ProvesServer(peer, a.now()); missing != nil {
		if errors.Is(err, apierror.ErrPermissionDenied) || errors.Is(err, certs.ErrPeer) {
			err = apierror.Denied("needs the identity of a server, or TLS: %w", missing)
		}
		return err
	}
	return nil
}

// node admits the secret ID or the identity of a node.
func (a *Authority) node(id *rbac.AuthenticatedIdentity, token string) error {
	if token == "" {
		return apierror.ErrPermissionDenied
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
		return apierror.ErrPermissionDenied
	}
	if err := a.admitted(claims); err != nil {
		return err
	}
	id.Claims, id.ClientID = claims, n.NodeID
	return nil
}

// registrar admits callers that may register a node or update its status.
func (a *Authority) registrar(id *rbac.AuthenticatedIdentity, token string) error {
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
		return apierror.ErrPermissionDenied
	}
	if err != nil {
		return err
	}
	if a.superseded(claims) {
		return apierror.ErrPermissionDenied
	}
	id.Claims = claims
	return nil
}

// admitted rejects the identity of a purged node, and one issued before the node was admitted
// again. A node that is not in state may have joined just now: this server may lag behind.
func (a *Authority) admitted(claims *idtoken.Claims) error {
	n := claims.NodeIdentityClaims
	if n == nil {
		return nil
	}
	_, purged := a.store().Snapshot().Purged(nil, n.NodeID)
	if purged || a.superseded(claims) {
		a.log.Debug("rejected token", "node", n.NodeID, "err", "the node was purged")
		return apierror.ErrPermissionDenied
	}
	return nil
}

// superseded reports whether claims belong to a node that was admitted again later. Registrations
// and heartbeats of a purged node pass, so that it gets the error for an unknown node.
func (a *Authority) superseded(claims *idtoken.Claims) bool {
	if claims.NodeIdentityClaims == nil {
		return false
	}
	n := a.store().Snapshot().Node(nil, claims.NodeIdentityClaims.NodeID)
	return n != nil && claims.IssuedAt < n.IdentitiesSince
}

// holder finds the token or the node of a secret ID.
func (a *Authority) holder(id *rbac.AuthenticatedIdentity, secret string) error {
	t := a.store().Snapshot().ACLTokenBySecret(nil, secret)
	switch {
	case t == nil:
		return a.secret(id, secret)
	case t.HasExpired(a.now()):
		a.log.Debug("rejected token", "accessor", t.AccessorID, "err", "token expired")
		return errPast
	}
	id.ACLToken = t.WithoutSecret()
	return nil
}

// secret finds the node of a secret ID.
func (a *Authority) secret(id *rbac.AuthenticatedIdentity, secret string) error {
	n := a.store().Snapshot().NodeBySecret(nil, secret)
	if n == nil {
		return apierror.ErrPermissionDenied
	}
	id.ClientID = n.ID
	return nil
}

// claims verifies a signed token.
func (a *Authority) claims(token string) (*idtoken.Claims, error) {
	claims, err := a.verify.Verify(token, a.now())
	if err == nil {
		return claims, nil
	}
	a.log.Debug("rejected token", "err", err)
	switch {
	case errors.Is(err, apierror.ErrIdentityExpired):
		return claims, errPast
	case errors.Is(err, keyring.ErrClosed): // its validity is unknown
		return nil, apierror.Errorf(http.StatusServiceUnavailable, "token cannot be verified: its root key is closed on this server")
	}
	return nil, apierror.ErrPermissionDenied
}

// alive returns an error unless the allocation of a workload identity is live.
func (a *Authority) alive(w *idtoken.WorkloadIdentityClaims) error {
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
	a.log.Debug("rejected token", "alloc", w.AllocationID, "err", why)
	return apierror.ErrPermissionDenied
}

func (a *Authority) isLeader(token string) bool {
	own := a.leader.Load()
	return own != nil && subtle.ConstantTimeCompare([]byte(*own), []byte(token)) == 1
}

func leaderToken() *rbac.Token {
	return &rbac.Token{AccessorID: LeaderAccessor, Name: "Leader Token", Type: rbac.ManagementToken}
}

// anonymousToken returns the token of callers without a token.
func anonymousToken() *rbac.Token {
	return &rbac.Token{AccessorID: anonymousAccessor, Name: "Anonymous Token", Type: rbac.ClientToken,
		Policies: []string{rbac.PolicyAnonymous}}
}
