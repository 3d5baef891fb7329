package client

import (
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/open-nomad/open-nomad/internal/cgroup"
	"github.com/open-nomad/open-nomad/internal/wake"
	"github.com/open-nomad/open-nomad/nomad"
)

// nodeHolder holds the node to be registered.
type nodeHolder struct {
	changed wake.Signal // the registered node is outdated

	mu   sync.Mutex
	node *nomad.Node
}

// copy returns a shallow copy of the node. Its parts are shared and never modified.
func (h *nodeHolder) copy() *nomad.Node {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := *h.node
	return &n
}

// current returns the node, which must not be modified. It is replaced by changes.
func (h *nodeHolder) current() *nomad.Node {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.node
}

// update replaces the node with an edited copy. edit may modify the maps of the copy.
func (h *nodeHolder) update(edit func(n *nomad.Node)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := *h.node
	n.Attributes, n.Meta = maps.Clone(n.Attributes), maps.Clone(n.Meta)
	edit(&n)
	h.node = &n
}

// setDrivers records the drivers' fingerprints. changed reports whether any differs; turned
// holds the known drivers whose health changed.
func (h *nodeHolder) setDrivers(infos map[string]*nomad.DriverInfo) (changed bool, turned []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if maps.Equal(h.node.Drivers, infos) { // an info is replaced, never modified
		return false, nil
	}
	n := *h.node
	n.Attributes = maps.Clone(n.Attributes)
	n.Drivers = infos
	for name, info := range infos {
		before := h.node.Drivers[name]
		if before != nil && before.Healthy != info.Healthy {
			turned = append(turned, name)
		}
		if before != nil {
			for attr := range before.Attributes {
				delete(n.Attributes, attr)
			}
		}
		maps.Copy(n.Attributes, info.Attributes)
		key := "driver." + name
		if delete(n.Attributes, key); info.Detected {
			n.Attributes[key] = "1"
		}
	}
	h.node = &n
	slices.Sort(turned)
	return true, turned
}

// setDevices records the devices of the node, and reports whether they differ.
func (h *nodeHolder) setDevices(groups []*nomad.NodeDeviceResource) (changed bool) {
	h.update(func(n *nomad.Node) {
		r := *n.NodeResources
		changed = !reflect.DeepEqual(r.Devices, groups)
		r.Devices = groups
		n.NodeResources = &r
	})
	return changed
}

// newNodeHolder returns the node before it is fingerprinted.
func newNodeHolder(c *Client, volumes map[string]*nomad.ClientHostVolumeConfig) *nodeHolder {
	cfg := &c.cfg
	eligibility := nomad.NodeSchedulingEligible
	if cfg.DefaultIneligible {
		eligibility = nomad.NodeSchedulingIneligible
	}
	n := &nomad.Node{
		ID: c.id.ID, SecretID: c.id.Secret(), Session: c.session,
		Datacenter: cfg.Datacenter, Name: cfg.Name,
		NodeClass: cfg.NodeClass, NodePool: cfg.NodePool,
		HTTPAddr: cfg.HTTPAddr, TLSEnabled: cfg.TLSEnabled, CgroupParent: cfg.CgroupParent,
		Attributes: map[string]string{nomad.NodeTicketAttribute: nomad.NodeTicketVersion},
		Links:      map[string]string{}, Meta: c.meta.Effective(),
		Drivers: map[string]*nomad.DriverInfo{}, HostVolumes: volumes, GCVolumesOnNodeGC: cfg.GCVolumesOnNodeGC,
		NodeMaxAllocs:         cfg.NodeMaxAllocs,
		SchedulingEligibility: eligibility, Status: nomad.NodeStatusInit,
	}
	if tree, err := cgroup.Detect(); err == nil && tree.Usable() == nil {
		n.Attributes[nomad.NodeSpiffeAttribute] = nomad.NodeSpiffeVersion // callers are identified by their groups
	}
	return &nodeHolder{changed: wake.New(), node: n}
}
