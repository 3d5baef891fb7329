package nodes

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/internal/pattern"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/rules"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Default values of Introduction.DefaultTTL and Introduction.MaxTTL.
const (
	defaultIntroductionTTL = 5 * time.Minute
	maxIntroductionTTL     = 30 * time.Minute
)

// Introduction configures how nodes that are not in state are admitted.
type Introduction struct {
	// Enforcement is one of the NodeIntroductionEnforcement constants of package nomad. The
	// default is warn.
	Enforcement string
	// DefaultTTL and MaxTTL limit the TTL of introduction tokens. The defaults are 5 and 30
	// minutes.
	DefaultTTL time.Duration
	MaxTTL     time.Duration
}

// Warning returns a warning for operators about the enforcement, or "" when it is strict. Only
// the configuration of the leader has an effect, because the leader admits nodes.
func (i Introduction) Warning() string {
	switch i.Enforcement {
	case idtoken.EnforcementStrict:
		return ""
	case idtoken.EnforcementNone:
		return `nodes can join without an introduction token: server.client_introduction.enforcement is "none", set it to "strict"`
	}
	return `nodes can join without an introduction token: server.client_introduction.enforcement is "warn", set it to "strict"`
}

// violations is the metric that counts violations of the enforcement.
var violations = []string{"nomad", "client", "introduction_violation_num"}

// nodeName matches the node names that an introduction token can contain. The name is part of
// the subject.
var nodeName = pattern.Lazy(`^[^\s:]{0,255}$`)

// Introduce signs an introduction token for nodes. It is for operators: tasks and nodes
// need a policy that allows it.
func (s *Service) Introduce(ctx context.Context, c *rpc.Call,
	req *message.ACLCreateClientIntroductionTokenRequest) (*message.ACLCreateClientIntroductionTokenResponse, error) {
	if err := handler.ForOperators(c); err != nil {
		return nil, err
	}
	pool := cmp.Or(req.NodePool, nomad.NodePoolDefault)
	switch {
	case req.TTL < 0:
		return nil, apierror.Errorf(400, "negative TTL of an introduction token")
	case req.Uses < 0 || req.Uses > idtoken.MaxIntroductionUses:
		return nil, apierror.Errorf(400, "an introduction token can be used 1 to %d times, not %d", idtoken.MaxIntroductionUses, req.Uses)
	case pool == nomad.NodePoolAll || !rules.NodePoolName().MatchString(pool):
		return nil, apierror.Errorf(400, "nodes cannot register in node pool %q", pool)
	case !nodeName().MatchString(req.NodeName):
		return nil, apierror.Errorf(400, "invalid node name: it must not contain spaces or colons, or exceed 255 bytes")
	}
	ttl := min(cmp.Or(req.TTL, s.cfg.Introduction.DefaultTTL), s.cfg.Introduction.MaxTTL)
	intro := &idtoken.NodeIntroductionIdentityClaims{NodePool: pool, NodeName: req.NodeName}
	if req.Uses > 1 {
		intro.Uses = req.Uses
	}
	ctx, cancel := s.Signing(ctx)
	defer cancel()
	token, err := s.Issuer.Mint(ctx, s.Issuer.Introduction(intro, ttl, s.Now()))
	if err != nil {
		return nil, fmt.Errorf("sign introduction token: %w", err)
	}
	return &message.ACLCreateClientIntroductionTokenResponse{JWT: token.Reveal()}, nil
}

// mayJoin decides whether a node that is not in state may join. The enforcement levels are
// those of Nomad 2.0. A credential that the node presents must be valid unless enforcement is
// none. Without a credential the node joins with a warning unless enforcement is strict. The
// admission is part of the log entry, because the FSM counts the uses of a token.
func (s *Service) mayJoin(c *rpc.Call, entry *message.NodeRegisterRequest) error {
	node, claims, enforced := entry.Node, c.Identity.Claims, s.cfg.Introduction.Enforcement
	if enforced == idtoken.EnforcementNone || c.Conn == nil {
		return nil
	}
	if _, purged := s.Snapshot().Purged(nil, node.ID); purged && !entry.Strict {
		s.Log.Warn("purged node joins again", "node", node.ID, "name", node.Name)
	}
	switch {
	case c.Expired:
		return s.notIntroduced(node, "token expired")
	case claims == nil && entry.Strict:
		return fmt.Errorf("%w: present an introduction token", s.notIntroduced(node, "no introduction token"))
	case claims == nil:
		metrics.IncrCounter(violations, 1)
		s.Log.Warn("node joins without an introduction token", "node", node.ID, "name", node.Name)
		return nil
	case claims.NodeIntroductionIdentityClaims != nil:
		return s.introduced(claims, entry)
	case claims.NodeIdentityClaims != nil && claims.NodeID == node.ID:
		return s.returns(claims.NodeIdentityClaims, entry)
	}
	return s.notIntroduced(node, "identity of another node")
}

// introduced checks the introduction token of a node.
func (s *Service) introduced(claims *idtoken.Claims, entry *message.NodeRegisterRequest) error {
	intro, node := claims.NodeIntroductionIdentityClaims, entry.Node
	if claims.ID == "" {
		return s.notIntroduced(node, "introduction token without ID")
	}
	if intro.NodePool != node.NodePool || intro.NodeName != "" && intro.NodeName != node.Name {
		return s.notIntroduced(node, "introduction token of another node pool or name")
	}
	if at, purged := s.Snapshot().Purged(nil, node.ID); purged && entry.Strict && claims.IssuedAt < at {
		return s.notIntroduced(node, "introduction token issued before the node was purged")
	}
	entry.Introduction = &idtoken.NodeIntroduction{TokenID: claims.ID, Uses: max(intro.Uses, 1), Expiry: claims.Expiry,
		IssuedAt: claims.IssuedAt, Holder: node.Holder()}
	return nil
}

// returns decides whether a node that is no longer in state may join with its own identity.
// This happens after garbage collection or a restore of an older state. With strict
// enforcement the node must be unchanged and must not have been purged.
func (s *Service) returns(was *idtoken.NodeIdentityClaims, entry *message.NodeRegisterRequest) error {
	node := entry.Node
	same := node.SameAdmission(&nomad.Node{NodePool: was.NodePool, Datacenter: was.NodeDatacenter, Name: was.AdmittedName})
	_, purged := s.Snapshot().Purged(nil, node.ID)
	switch {
	case !entry.Strict:
		return nil
	case purged:
		return s.notIntroduced(node, "node was purged")
	case !same:
		return s.notIntroduced(node, "identity of another node pool, datacenter or name")
	}
	entry.ByIdentity = true
	return nil
}

// bindsNames reports whether an introduction binds a node to its name. Only strict enforcement does. Then the identity of
// the node has the name, in a claim that Nomad does not have, for the case that the node is no longer in state.
func (s *Service) bindsNames() bool {
	return s.cfg.Introduction.Enforcement == idtoken.EnforcementStrict
}

// mayChange decides whether a known node may register with another pool, datacenter or name.
// With strict enforcement it needs a new introduction token.
func (s *Service) mayChange(c *rpc.Call, old *nomad.Node, entry *message.NodeRegisterRequest) error {
	node := entry.Node
	if old.SameAdmission(node) || s.cfg.Introduction.Enforcement == idtoken.EnforcementNone || c.Conn == nil {
		return nil
	}
	if claims := c.Identity.Claims; !c.Expired && claims != nil && claims.NodeIntroductionIdentityClaims != nil {
		return s.introduced(claims, entry)
	}
	if entry.Strict {
		return fmt.Errorf("%w: present a new introduction token", s.notIntroduced(node, "changed node pool, datacenter or name"))
	}
	metrics.IncrCounter(violations, 1)
	s.Log.Warn("node changed its node pool, datacenter or name", "node", node.ID, "name", node.Name, "pool", node.NodePool, "datacenter",
		node.Datacenter)
	return nil
}

// readmits reports whether a node is admitted again: after a purge, or with an introduction
// token for another pool, datacenter or name. Its earlier identities then become invalid.
func (s *Service) readmits(snap *state.Snapshot, old *nomad.Node, entry *message.NodeRegisterRequest) bool {
	_, purged := snap.Purged(nil, entry.Node.ID)
	changed := old != nil && entry.Introduction != nil
	if !purged && !changed {
		return false
	}
	entry.Node.IdentitiesSince = s.Now().Unix()
	return true
}

// notIntroduced rejects a node. The reason is logged, but not returned to the bearer of the
// token.
func (s *Service) notIntroduced(node *nomad.Node, why string) error {
	metrics.IncrCounter(violations, 1)
	s.Log.Warn("rejected node", "node", node.ID, "name", node.Name, "why", why)
	return apierror.ErrPermissionDenied
}
