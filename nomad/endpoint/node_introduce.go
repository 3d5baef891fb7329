package endpoint

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"time"

	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/internal/rpc"
	"github.com/open-nomad/open-nomad/nomad"
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

// mayJoin judges a node that state does not know (compat/identity.md section 3). A
// caller that shows something must show the right thing, whatever is enforced but
// nothing; one that shows nothing joins with a warning, unless that is strict. It
// returns what admits the node, nil for nothing: the log decides whether that was
// used up.
func (s *Service) mayJoin(c *rpc.Call, node *nomad.Node) (*nomad.NodeIntroduction, error) {
	claims, enforced := c.Identity.Claims, s.cfg.Introduction.Enforcement
	if enforced == nomad.NodeIntroductionEnforcementNone {
		return nil, nil
	}
	switch {
	case c.Expired:
		return nil, s.notIntroduced(node, "its token has expired")
	case claims == nil && enforced == nomad.NodeIntroductionEnforcementStrict:
		return nil, fmt.Errorf("%w: show an introduction token", s.notIntroduced(node, "it shows no introduction token"))
	case claims == nil:
		metrics.IncrCounter(violations, 1)
		s.log.Warn("node joins without an introduction", "node", node.ID, "name", node.Name)
		return nil, nil
	case claims.NodeIntroductionIdentityClaims != nil:
		intro := claims.NodeIntroductionIdentityClaims
		if claims.ID == "" {
			return nil, s.notIntroduced(node, "the introduction has no ID by which its uses are counted")
		}
		if intro.NodePool != node.NodePool || intro.NodeName != "" && intro.NodeName != node.Name {
			return nil, s.notIntroduced(node, "the introduction is for another node pool or name")
		}
		return &nomad.NodeIntroduction{TokenID: claims.ID, Uses: max(intro.Uses, 1), Expiry: claims.Expiry}, nil
	case claims.NodeIdentityClaims != nil && claims.NodeID == node.ID:
		return nil, nil // it was a node before, and forgotten
	}
	return nil, s.notIntroduced(node, "its identity is another node's")
}

// notIntroduced refuses a node. Why is told to who looks after the servers: what is
// wrong with a token is nothing for its bearer.
func (s *Service) notIntroduced(node *nomad.Node, why string) error {
	metrics.IncrCounter(violations, 1)
	s.log.Warn("refused a node", "node", node.ID, "name", node.Name, "why", why)
	return nomad.ErrPermissionDenied
}
