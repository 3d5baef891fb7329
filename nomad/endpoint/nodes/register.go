package nodes

import (
	"cmp"
	"context"
	"crypto/subtle"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/authz"
	"github.com/open-nomad/open-nomad/nomad/consul"
	"github.com/open-nomad/open-nomad/nomad/identity"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/nodeclass"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Register admits a new node or updates a known one. It signs a node identity when one is
// due, as Nomad 2.0 does.
func (s *Service) Register(ctx context.Context, c *rpc.Call, req *message.NodeRegisterRequest) (*message.NodeUpdateResponse, error) {
	if err := complete(req.Node); err != nil {
		return nil, err
	}
	if err := ownEvents(req.NodeEvent); err != nil {
		return nil, err
	}
	if err := s.proven(req); err != nil {
		return nil, err
	}
	node := *req.Node
	if node.NodePool == "" {
		node.NodePool = nomad.NodePoolDefault
	}
	snap := s.Snapshot()
	old := snap.Node(nil, node.ID)
	entry := &message.NodeRegisterRequest{Node: &node, NodeEvent: req.NodeEvent, CreateNodePool: s.makesPools(req)}
	if err := s.admit(ctx, c, old, entry); err != nil {
		return nil, disowned(c, err)
	}
	if err := s.spend(req); err != nil {
		return nil, err
	}
	serverFields(&node, old)
	readmitted := s.readmits(snap, old, entry)
	if snap.NodePool(nil, node.NodePool) == nil && !entry.CreateNodePool {
		return nil, apierror.Errorf(400, "node pool %q does not exist: create it in the authoritative region %q first", node.NodePool,
			cmp.Or(s.cfg.AuthoritativeRegion, s.Region))
	}
	node.StatusUpdatedAt = s.Now().Unix()
	node.ComputedClass = nodeclass.Of(&node)

	out := &message.NodeUpdateResponse{}
	ends := identityEnds(c)
	deciding := identity.Registration{Node: &node, Caller: c.Identity, Expired: c.Expired, TTL: identityTTL(snap, node.NodePool),
		Named: s.bindsNames(), Now: s.Now()}
	if deciding.Generates() || readmitted {
		var err error
		if ends, err = s.mint(ctx, &node, deciding.TTL, out); err != nil {
			return nil, err
		}
	} else if old != nil {
		node.IdentitySigningKeyID = old.IdentitySigningKeyID
	}
	index, err := s.Apply(ctx, message.NodeRegisterRequestType, entry)
	if err != nil {
		return nil, disowned(c, err)
	}
	out.NodeModifyIndex, out.Index = index, index
	if evaluates(old, &node) {
		if err := s.evaluateNode(ctx, node.ID, index, out); err != nil {
			return nil, err
		}
	}
	if c.Conn != nil && !c.Forwarded {
		c.Conn.BindNode(node.ID)
	}
	s.describe(&node, ends, out)
	return out, nil
}

// admit decides whether the caller may register as the node. A known node is checked by its
// secret ID, key and session, a new one by its introduction. Conditions that the FSM must check
// are set in the entry.
func (s *Service) admit(ctx context.Context, c *rpc.Call, old *nomad.Node, entry *message.NodeRegisterRequest) (err error) {
	// The client of the same agent needs no introduction: its process already has the keys.
	entry.Strict = s.cfg.Introduction.Enforcement == idtoken.EnforcementStrict && c.Conn != nil
	if old == nil {
		return s.mayJoin(c, entry)
	}
	if subtle.ConstantTimeCompare([]byte(old.SecretID), []byte(entry.Node.SecretID)) != 1 {
		return apierror.Errorf(403, "node secret ID does not match. Not registering node.")
	}
	if err := s.sameKey(ctx, c, old, entry.Node); err != nil {
		return err
	}
	if err := s.mayChange(c, old, entry); err != nil {
		return err
	}
	if old.Session != nil {
		entry.SessionBefore = old.Session.ID
	}
	return s.succeeds(ctx, old, entry.Node)
}

// serverFields resets the fields that only servers set. A new node may register as
// ineligible. A known one keeps its eligibility (state.RegisterNode).
func serverFields(node, old *nomad.Node) {
	node.DrainStrategy, node.LastDrain, node.Events = nil, nil, nil
	node.LastMissedHeartbeatIndex, node.LastAllocUpdateIndex = 0, 0
	node.StatusDescription, node.IdentitySigningKeyID, node.IdentitiesSince = "", "", 0
	node.HadConsul = old != nil && consul.KeepsConsul(old, node)
	if node.SchedulingEligibility != nomad.NodeSchedulingIneligible {
		node.SchedulingEligibility = nomad.NodeSchedulingEligible
	}
	if old != nil {
		node.Status = old.Status // changed by heartbeats only
		node.StatusDescription, node.IdentitiesSince = old.StatusDescription, old.IdentitiesSince
	} else if node.Status == "" {
		node.Status = nomad.NodeStatusInit
	}
}

// complete rejects a node with missing or invalid fields.
func complete(n *nomad.Node) error {
	switch {
	case n == nil:
		return apierror.Errorf(400, "missing node for client registration")
	case n.ID == "":
		return apierror.Errorf(400, "missing node ID for client registration")
	case strings.Contains(n.ID, "/"):
		return apierror.Errorf(400, "a node ID must not contain a slash")
	case n.Datacenter == "":
		return apierror.Errorf(400, "missing datacenter for client registration")
	case n.Name == "":
		return apierror.Errorf(400, "missing node name for client registration")
	case len(n.Attributes) == 0:
		return apierror.Errorf(400, "missing attributes for client registration")
	case n.SecretID == "":
		return apierror.Errorf(400, "missing node secret ID for client registration")
	case n.NodePool == nomad.NodePoolAll:
		return apierror.Errorf(400, "node is not allowed to register in node pool %q", nomad.NodePoolAll)
	case n.Status != "" && !validStatus(n.Status):
		return apierror.Errorf(400, "invalid node status %q", n.Status)
	case n.Session != nil && !(nomad.IsUUID(n.Session.ID) && bootID().MatchString(n.Session.BootID)):
		return apierror.Errorf(400, "invalid node session: its ID must be a UUID, and its boot ID a digest or empty")
	}
	return nil
}

func validStatus(status string) bool {
	switch status {
	case nomad.NodeStatusInit, nomad.NodeStatusReady, nomad.NodeStatusDown, nomad.NodeStatusDisconnected:
		return true
	}
	return false
}

// identityTTL returns the TTL of node identities in a pool.
func identityTTL(snap *state.Snapshot, pool string) time.Duration {
	if p := snap.NodePool(nil, pool); p != nil && p.NodeIdentityTTL > 0 {
		return p.NodeIdentityTTL
	}
	return nomad.DefaultNodePoolNodeIdentityTTL
}

// mint signs an identity for the node, adds it to the response and records its key. It
// returns when the identity expires.
func (s *Service) mint(ctx context.Context, node *nomad.Node, ttl time.Duration,
	out *message.NodeUpdateResponse) (ends time.Time, err error) {
	ctx, cancel := s.Signing(ctx)
	defer cancel()
	claims := s.Issuer.Node(node, ttl, s.Now())
	if s.bindsNames() {
		claims.AdmittedName = node.Name
	}
	token, err := s.Issuer.Mint(ctx, claims)
	if err != nil {
		metrics.IncrCounter(unsigned, 1)
		return ends, fmt.Errorf("sign the identity of node %s: %w", node.ID, err)
	}
	metrics.IncrCounter(signedNodes, 1)
	signed := token.Reveal()
	out.SignedIdentity = &signed
	node.IdentitySigningKeyID = token.KeyID()
	return time.Unix(claims.Expiry, 0), nil
}

// Metrics of node identities.
var (
	signedNodes = []string{"nomad", "node_identity", "signed"}
	unsigned    = []string{"nomad", "node_identity", "sign_failed"}
)

// identityEnds returns when the caller's node identity expires. It is the zero time without
// one.
func identityEnds(c *rpc.Call) time.Time {
	if claims := c.Identity.Claims; claims != nil && claims.NodeIdentityClaims != nil {
		return time.Unix(claims.Expiry, 0)
	}
	return time.Time{}
}

// describe starts the heartbeat timer of a node and adds the information about the servers to
// the response. The identity of the node expires at ends.
func (s *Service) describe(node *nomad.Node, ends time.Time, out *message.NodeUpdateResponse) {
	out.HeartbeatTTL = s.cfg.Heartbeats.Reset(node.ID)
	s.cfg.Heartbeats.SetIdentityExpiry(node.ID, ends)
	snap := s.Snapshot()
	for range snap.Nodes(nil) {
		out.NumNodes++
	}
	out.LeaderRPCAddr, _ = s.Cluster.Leader()
	out.Servers = s.servers()
	if n := snap.Node(nil, node.ID); n != nil {
		out.SchedulingEligibility = n.SchedulingEligibility
		out.WantedSchemas = s.wanted(snap, n)
	}
	out.KnownLeader = true
}

// servers returns the servers of the region that a node may call.
func (s *Service) servers() []*nomad.NodeServerInfo {
	var out []*nomad.NodeServerInfo
	for _, m := range s.Cluster.Members() {
		if m.Tags["region"] != s.Region || m.Status != "alive" {
			continue
		}
		host := m.Tags["rpc_addr"]
		if host == "" {
			host = m.Addr.String()
		}
		out = append(out, &nomad.NodeServerInfo{RPCAdvertiseAddr: net.JoinHostPort(host, m.Tags["port"]), Datacenter: m.Tags["dc"]})
	}
	return out
}

// UpdateStatus handles the heartbeats of nodes, and the status changes that the leader requests.
// It renews the node identity when it is due.
func (s *Service) UpdateStatus(ctx context.Context, c *rpc.Call,
	req *message.NodeUpdateStatusRequest) (*message.NodeUpdateResponse, error) {
	switch {
	case req.NodeID == "":
		return nil, apierror.Errorf(400, "missing node ID for client status update")
	case !validStatus(req.Status):
		return nil, apierror.Errorf(400, "invalid status for node")
	}
	leader := authz.IsLeader(c.Identity)
	if !leader {
		if err := authz.SameNode(c.Identity, req.NodeID); err != nil {
			return nil, err
		}
		if err := ownEvents(req.NodeEvent); err != nil {
			return nil, err
		}
	}
	snap := s.Snapshot()
	old := snap.Node(nil, req.NodeID)
	if old == nil {
		return nil, apierror.ErrNodeNotFound
	}
	if err := current(old, req.SessionID); err != nil && !leader {
		return nil, disowned(c, err)
	}
	node := *old
	node.Status = req.Status
	switch {
	case !leader:
		node.Status = heardFrom(snap, old, req.Status)
	case req.Status == nomad.NodeStatusDown && mayReturn(snap, old, s.Now()):
		if old.Status == nomad.NodeStatusDisconnected {
			s.cfg.Heartbeats.Reset(node.ID)
			return &message.NodeUpdateResponse{NodeModifyIndex: old.ModifyIndex}, nil
		}
		node.Status = nomad.NodeStatusDisconnected
	}
	out := &message.NodeUpdateResponse{}
	deciding := identity.Heartbeat{Node: &node, Caller: c.Identity, Forced: req.ForceIdentityRenewal, TTL: identityTTL(snap, node.NodePool),
		Named: s.bindsNames(), Now: s.Now()}
	ends, err := s.renewIdentity(ctx, c, deciding, out)
	if err != nil {
		return nil, err
	}
	out.NodeModifyIndex = old.ModifyIndex
	if node.Status != old.Status || req.NodeEvent != nil || node.IdentitySigningKeyID != old.IdentitySigningKeyID {
		index, err := s.Apply(ctx, message.NodeUpdateStatusRequestType, &message.NodeUpdateStatusRequest{
			NodeID: node.ID, Status: node.Status, IdentitySigningKeyID: node.IdentitySigningKeyID,
			NodeEvent: req.NodeEvent, UpdatedAt: s.Now().Unix()})
		if err != nil {
			return nil, err
		}
		out.NodeModifyIndex, out.Index = index, index
	}
	if evaluates(old, &node) {
		if err := s.evaluateNode(ctx, node.ID, out.NodeModifyIndex, out); err != nil {
			return nil, err
		}
	}
	switch {
	case node.Status == nomad.NodeStatusDisconnected && leader:
		s.cfg.Heartbeats.Reset(node.ID) // until its allocations are lost
		return out, nil
	case node.Status == nomad.NodeStatusDown, node.Status == nomad.NodeStatusDisconnected:
		s.cfg.Heartbeats.Clear(node.ID)
		return out, nil
	}
	if c.Conn != nil && !c.Forwarded && !leader {
		c.Conn.BindNode(node.ID)
	}
	s.describe(&node, ends, out)
	return out, nil
}

// mayReturn reports whether a node that missed its heartbeat is disconnected, not down: it has an allocation that may
// be unknown for a time.
func mayReturn(snap *state.Snapshot, n *nomad.Node, now time.Time) bool {
	if n.Status != nomad.NodeStatusReady && n.Status != nomad.NodeStatusDisconnected {
		return false
	}
	for a := range snap.LiveAllocsByNode(n.ID) {
		if a.Job != nil && !a.TerminalStatus() && a.Job.TaskGroup(a.TaskGroup).LostAfter() > 0 && !a.Expired(now) {
			return true
		}
	}
	return false
}

// heardFrom returns the status of a node after a heartbeat. A node that missed a heartbeat
// must first update its allocations, if it has any. Until then it is initializing, so that
// nothing is placed on it.
func heardFrom(snap *state.Snapshot, old *nomad.Node, asked string) string {
	if asked != nomad.NodeStatusReady || old.Status == nomad.NodeStatusReady || old.LastAllocUpdateIndex >= old.LastMissedHeartbeatIndex {
		return asked
	}
	for a := range snap.AllocsByNode(nil, old.ID) {
		if a.ClientStatus != nomad.AllocClientStatusComplete && a.ClientStatus != nomad.AllocClientStatusFailed {
			return nomad.NodeStatusInit
		}
	}
	return asked
}

// renewIdentity signs a new identity when a heartbeat requests one or the current one nears
// its expiry. It returns when the node's identity expires. A failure fails the heartbeat only
// when the identity is about to expire, so that an outage of the keyring does not stop nodes.
func (s *Service) renewIdentity(ctx context.Context, c *rpc.Call, deciding identity.Heartbeat,
	out *message.NodeUpdateResponse) (ends time.Time, err error) {
	if !deciding.Generates() {
		return identityEnds(c), nil
	}
	ends, err = s.mint(ctx, deciding.Node, deciding.TTL, out)
	if err != nil && !deciding.FailureCounts() {
		s.Log.Warn("renew node identity", "node", deciding.Node.ID, "err", err)
		return identityEnds(c), nil
	}
	return ends, err
}

// makesPools reports whether a registration creates its node pool. Only the authoritative
// region creates pools; other regions replicate them.
func (s *Service) makesPools(req *message.NodeRegisterRequest) bool {
	return req.CreateNodePool && (s.cfg.AuthoritativeRegion == "" || s.cfg.AuthoritativeRegion == s.Region)
}
