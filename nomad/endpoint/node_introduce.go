package endpoint

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"time"

	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// How long introduction tokens last unless it is said.
const (
	defaultIntroductionTTL = 5 * time.Minute
	maxIntroductionTTL     = 30 * time.Minute
)

// Introduction is what is asked of nodes that the servers don't know.
type Introduction struct {
	// Enforcement is one of nomad.NodeIntroductionEnforcement*; "" is warn.
	Enforcement string
	// DefaultTTL and MaxTTL are how long introduction tokens last. Zero: 5 min and
	// 30 min.
	DefaultTTL time.Duration
	MaxTTL     time.Duration
}

// Warning returns what an operator should know about the enforcement, "" when it is
// strict. Registrations are decided by the leader, with its own configuration.
func (i Introduction) Warning() string {
	switch i.Enforcement {
	case nomad.NodeIntroductionEnforcementStrict:
		return ""
	case nomad.NodeIntroductionEnforcementNone:
		return `nodes join without an introduction (server.client_introduction.enforcement is "none"): set it to "strict"`
	}
	return `nodes join without an introduction (server.client_introduction.enforcement is "warn"): set it to "strict"`
}

// violations counts nodes that were not introduced as they should have been.
var violations = []string{"nomad", "client", "introduction_violation_num"}

// nodeName is what a node may be called in a token: it is a part of the subject.
var nodeName = regexp.MustCompile(`^[^\s:]{0,255}$`)

// nodeIntroduce signs a token with which nodes may register themselves. It is for
// operators: without a policy that says so, no task and no node introduces another.
func (s *Service) nodeIntroduce(ctx context.Context, c *rpc.Call, req *nomad.ACLCreateClientIntroductionTokenRequest) (*nomad.ACLCreateClientIntroductionTokenResponse, error) {
	if err := forOperators(c); err != nil {
		return nil, err
	}
	pool := cmp.Or(req.NodePool, nomad.NodePoolDefault)
	switch {
	case req.TTL < 0:
		return nil, nomad.Errorf(400, "the TTL of an introduction is negative")
	case req.Uses < 0 || req.Uses > nomad.MaxIntroductionUses:
		return nil, nomad.Errorf(400, "an introduction is for 1 to %d nodes, not %d", nomad.MaxIntroductionUses, req.Uses)
	case pool == nomad.NodePoolAll || !poolName.MatchString(pool):
		return nil, nomad.Errorf(400, "nodes cannot register in node pool %q", pool)
	case !nodeName.MatchString(req.NodeName):
		return nil, nomad.Errorf(400, "a node name has no spaces and no colons, and at most 255 bytes")
	}
	ttl := min(cmp.Or(req.TTL, s.cfg.Introduction.DefaultTTL), s.cfg.Introduction.MaxTTL)
	intro := &nomad.NodeIntroductionIdentityClaims{NodePool: pool, NodeName: req.NodeName}
	if req.Uses > 1 {
		intro.Uses = req.Uses
	}
	ctx, cancel := s.signing(ctx)
	defer cancel()
	token, err := s.cfg.Issuer.Mint(ctx, s.cfg.Issuer.Introduction(intro, ttl, s.cfg.Now()))
	if err != nil {
		return nil, fmt.Errorf("sign the introduction: %w", err)
	}
	return &nomad.ACLCreateClientIntroductionTokenResponse{JWT: token.Reveal()}, nil
}

// mayJoin judges a node that state does not have (compat/identity.md section 3). A
// caller that shows something must show the right thing, unless nothing is enforced; one
// that shows nothing joins with a warning, unless enforcement is strict. What admits the
// node goes into the entry: the log decides whether a token was used up.
func (s *Service) mayJoin(c *rpc.Call, entry *nomad.NodeRegisterRequest) error {
	node, claims, enforced := entry.Node, c.Identity.Claims, s.cfg.Introduction.Enforcement
	if enforced == nomad.NodeIntroductionEnforcementNone || c.Conn == nil {
		return nil
	}
	if _, purged := s.snapshot().Purged(nil, node.ID); purged && !entry.Strict {
		s.log.Warn("a purged node joins again", "node", node.ID, "name", node.Name)
	}
	switch {
	case c.Expired:
		return s.notIntroduced(node, "its token has expired")
	case claims == nil && entry.Strict:
		return fmt.Errorf("%w: show an introduction token", s.notIntroduced(node, "it shows no introduction token"))
	case claims == nil:
		metrics.IncrCounter(violations, 1)
		s.log.Warn("node joins without an introduction", "node", node.ID, "name", node.Name)
		return nil
	case claims.NodeIntroductionIdentityClaims != nil:
		return s.introduced(claims, entry)
	case claims.NodeIdentityClaims != nil && claims.NodeID == node.ID:
		return s.returns(claims.NodeIdentityClaims, entry)
	}
	return s.notIntroduced(node, "its identity is another node's")
}

// introduced judges a node that shows an introduction token.
func (s *Service) introduced(claims *nomad.IdentityClaims, entry *nomad.NodeRegisterRequest) error {
	intro, node := claims.NodeIntroductionIdentityClaims, entry.Node
	if claims.ID == "" {
		return s.notIntroduced(node, "the introduction has no ID by which its uses are counted")
	}
	if intro.NodePool != node.NodePool || intro.NodeName != "" && intro.NodeName != node.Name {
		return s.notIntroduced(node, "the introduction is for another node pool or name")
	}
	if at, purged := s.snapshot().Purged(nil, node.ID); purged && entry.Strict && claims.IssuedAt < at {
		return s.notIntroduced(node, "the introduction is older than the purge of the node")
	}
	entry.Introduction = &nomad.NodeIntroduction{TokenID: claims.ID, Uses: max(intro.Uses, 1), Expiry: claims.Expiry, IssuedAt: claims.IssuedAt}
	return nil
}

// returns judges a node that state does not have any more and that shows its own
// identity: the leader collected it, or an older state was restored. With strict
// enforcement it comes back as it was admitted, and not when it was purged.
func (s *Service) returns(was *nomad.NodeIdentityClaims, entry *nomad.NodeRegisterRequest) error {
	node := entry.Node
	same := node.SameAdmission(&nomad.Node{NodePool: was.NodePool, Datacenter: was.NodeDatacenter, Name: was.AdmittedName})
	_, purged := s.snapshot().Purged(nil, node.ID)
	switch {
	case !entry.Strict:
		return nil
	case purged:
		return s.notIntroduced(node, "it was purged")
	case !same:
		return s.notIntroduced(node, "its identity is for another node pool, datacenter or name")
	}
	entry.ByIdentity = true
	return nil
}

// mayChange judges a known node that registers with another pool, datacenter or name
// than it was admitted with. With strict enforcement that takes a new introduction.
func (s *Service) mayChange(c *rpc.Call, old *nomad.Node, entry *nomad.NodeRegisterRequest) error {
	node := entry.Node
	if old.SameAdmission(node) || s.cfg.Introduction.Enforcement == nomad.NodeIntroductionEnforcementNone || c.Conn == nil {
		return nil
	}
	if claims := c.Identity.Claims; !c.Expired && claims != nil && claims.NodeIntroductionIdentityClaims != nil {
		return s.introduced(claims, entry)
	}
	if entry.Strict {
		return fmt.Errorf("%w: show a new introduction token", s.notIntroduced(node, "it changed its node pool, datacenter or name"))
	}
	metrics.IncrCounter(violations, 1)
	s.log.Warn("a node changed its node pool, datacenter or name", "node", node.ID, "name", node.Name, "pool", node.NodePool, "datacenter", node.Datacenter)
	return nil
}

// readmits reports whether a node is admitted again: it was purged, or it was introduced
// with another pool, datacenter or name. The identities that it had end then.
func (s *Service) readmits(snap *state.Snapshot, old *nomad.Node, entry *nomad.NodeRegisterRequest) bool {
	_, purged := snap.Purged(nil, entry.Node.ID)
	changed := old != nil && entry.Introduction != nil
	if !purged && !changed {
		return false
	}
	entry.Node.IdentitiesSince = s.cfg.Now().Unix()
	return true
}

// notIntroduced refuses a node. Why is told to who looks after the servers: what is
// wrong with a token is nothing for its bearer.
func (s *Service) notIntroduced(node *nomad.Node, why string) error {
	metrics.IncrCounter(violations, 1)
	s.log.Warn("refused a node", "node", node.ID, "name", node.Name, "why", why)
	return nomad.ErrPermissionDenied
}
