package hostvolumes

import (
	"fmt"
	"slices"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/hostvolume"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/rules"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// wish is a request for a volume. override skips Sentinel policies.
type wish struct {
	volume    *hostvolume.Volume
	namespace string // of the request
	override  bool
	right     acl.NamespaceCapability
}

// admit returns a checked copy of the requested volume. The caller needs the right in the namespace of the volume, which
// must be that of the request, if the request has one.
func (s *Service) admit(c *rpc.Call, w wish) (*hostvolume.Volume, error) {
	if w.volume == nil {
		return nil, apierror.Errorf(400, "missing volume definition")
	}
	v := codec.Copy(w.volume)
	if v.Namespace != "" && w.namespace != "" && v.Namespace != w.namespace {
		return nil, apierror.Errorf(400, "volume %q has the namespace %q, but the request has %q: use one of them", v.Name,
			v.Namespace, w.namespace)
	}
	if v.Namespace == "" {
		v.Namespace = handler.NamespaceOf(w.namespace)
	}
	if err := c.Access.Need(acl.InNamespace(v.Namespace, w.right)); err != nil {
		return nil, err
	}
	if w.override {
		if err := c.Access.Need(acl.InNamespace(v.Namespace, acl.SentinelOverride)); err != nil {
			return nil, err
		}
	}
	v.Allocations, v.State = nil, ""
	v.CreateIndex, v.ModifyIndex, v.CreateTime, v.ModifyTime = 0, 0, 0, 0
	v.Canonicalize()
	if err := rules.HostVolume(v); err != nil {
		return nil, err
	}
	for _, k := range v.Constraints {
		if _, err := feasible.Compile(k.LTarget, k.Operand, k.RTarget); err != nil {
			return nil, apierror.Errorf(400, "volume %q: %v", v.Name, err)
		}
	}
	return v, handler.KnownNamespace(s.Snapshot(), v.Namespace)
}

// succeed checks an update of a stored volume and copies what cannot change. A volume in use is not updated.
func succeed(snap *state.Snapshot, v, old *hostvolume.Volume) error {
	if err := rules.HostVolumeUpdate(v, old); err != nil {
		return err
	}
	if ids := users(snap, old); len(ids) > 0 {
		return apierror.Errorf(400, "cannot update a volume in use: volume %s is used by allocations: %v", v.ID, ids)
	}
	return nil
}

// users returns the IDs of the allocations that use a volume, sorted.
func users(snap *state.Snapshot, v *hostvolume.Volume) []string {
	var ids []string
	for _, a := range snap.HostVolumeUsers(v) {
		ids = append(ids, a.ID)
	}
	slices.Sort(ids)
	return ids
}

// place chooses the node of a new volume, and reserves the name there.
func (s *Service) place(snap *state.Snapshot, v *hostvolume.Volume) (free func(), err error) {
	rules := rulesOf(v)
	if v.NodeID != "" {
		return s.placeOn(snap, v, rules)
	}
	nodes := snap.Nodes(nil)
	if v.NodePool != "" {
		if snap.NodePool(nil, v.NodePool) == nil {
			return nil, apierror.Errorf(404, "node pool %q does not exist", v.NodePool)
		}
		nodes = snap.NodesByPool(nil, v.NodePool)
	}
	existing, infeasible := 0, 0
	for n := range nodes {
		switch {
		case taken(snap, n, v.Name) != "":
			existing++
		case n.Status != nomad.NodeStatusReady || unmet(rules, n) != "":
			infeasible++
		default:
			if free, ok := s.take(nameOn(n.ID, v.Name)); ok {
				v.NodeID, v.NodePool = n.ID, n.NodePool
				return free, nil
			}
			existing++
		}
	}
	// Governance of node pools is a feature of Nomad Enterprise, so that it filters no node.
	return nil, apierror.Errorf(409, "no node meets constraints: %d nodes had existing volume, %d nodes filtered by "+
		"node pool governance, %d nodes were infeasible", existing, 0, infeasible)
}

// placeOn checks the node that the volume names.
func (s *Service) placeOn(snap *state.Snapshot, v *hostvolume.Volume, rules []*feasible.Constraint) (free func(), err error) {
	n := snap.Node(nil, v.NodeID)
	if n == nil {
		return nil, apierror.UnknownNode(v.NodeID)
	}
	if v.NodePool != "" && v.NodePool != n.NodePool {
		return nil, apierror.Errorf(400, "node %s is not feasible for volume: it is in node pool %q, not in %q", n.ID, n.NodePool, v.NodePool)
	}
	if n.Status != nomad.NodeStatusReady {
		return nil, apierror.Errorf(409, "node %s is not feasible for volume: its status is %s", n.ID, n.Status)
	}
	if why := unmet(rules, n); why != "" {
		return nil, apierror.Errorf(400, "node %s is not feasible for volume: %s", n.ID, why)
	}
	v.NodePool = n.NodePool
	return s.reserve(snap, n, v.Name)
}

// reserve reserves a name on a node.
func (s *Service) reserve(snap *state.Snapshot, n *nomad.Node, name string) (free func(), err error) {
	if why := taken(snap, n, name); why != "" {
		return nil, apierror.Errorf(409, "volume name already exists on this node: %s", why)
	}
	free, ok := s.take(nameOn(n.ID, name))
	if !ok {
		return nil, apierror.Errorf(409, "volume name already exists on this node: another request creates %q on node %s", name, n.ID)
	}
	return free, nil
}

func nameOn(node, name string) string { return "name " + node + "/" + name }

// taken returns what has the name on the node, or "". A dynamic volume would replace a static one in the tasks of all
// namespaces that mount it, so that it must have another name.
func taken(snap *state.Snapshot, n *nomad.Node, name string) string {
	if other := snap.HostVolumeOn(nil, n.ID, name); other != nil {
		return fmt.Sprintf("node %s has a volume %q", n.ID, name)
	}
	if have := n.HostVolumes[name]; have != nil && have.ID == "" {
		return fmt.Sprintf("the configuration of node %s has a host_volume %q", n.ID, name)
	}
	return ""
}

// rulesOf returns what a volume requires of its node: its plugin, and its constraints.
func rulesOf(v *hostvolume.Volume) []*feasible.Constraint {
	plugin, _ := feasible.Compile("${attr."+hostvolume.PluginAttribute(v.PluginID)+"}", nomad.ConstraintAttributeIsSet, "")
	rules := []*feasible.Constraint{plugin}
	for _, k := range v.Constraints {
		rule, _ := feasible.Compile(k.LTarget, k.Operand, k.RTarget) // checked by admit
		rules = append(rules, rule)
	}
	return rules
}

// unmet returns the first rule that the node does not meet, or "".
func unmet(rules []*feasible.Constraint, n *nomad.Node) string {
	for _, rule := range rules {
		if !rule.Holds(n) {
			return rule.String()
		}
	}
	return ""
}
