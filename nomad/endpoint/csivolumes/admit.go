package csivolumes

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/csisecret"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/rules"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// request is a request for volumes. override skips Sentinel policies.
type request struct {
	volumes   []*csi.Volume
	namespace string // of the request, for volumes without one
	override  bool
}

// admit returns copies of the requested volumes. The caller needs the right to write in the namespace of each, and to read
// plugins.
func admit(c *rpc.Call, r request) ([]*csi.Volume, error) {
	namespaces := []string{}
	for _, v := range r.volumes {
		if v != nil {
			namespaces = append(namespaces, cmp.Or(v.Namespace, handler.NamespaceOf(r.namespace)))
		}
	}
	if len(namespaces) == 0 {
		namespaces = []string{handler.NamespaceOf(r.namespace)}
	}
	for _, ns := range namespaces {
		if err := c.Access.Need(acl.InNamespace(ns, acl.CSIWriteVolume)); err != nil {
			return nil, err
		}
		if r.override {
			if err := c.Access.Need(acl.InNamespace(ns, acl.SentinelOverride)); err != nil {
				return nil, err
			}
		}
	}
	if err := c.Access.Need(acl.ToRead(acl.Plugins)); err != nil {
		return nil, err
	}
	if len(r.volumes) == 0 || slices.Contains(r.volumes, nil) {
		return nil, apierror.Errorf(400, "missing volume definition")
	}
	var out []*csi.Volume
	for i, v := range r.volumes {
		out = append(out, requested(v, namespaces[i]))
	}
	return out, nil
}

// requested returns a copy of the fields of a volume that a caller may set.
func requested(v *csi.Volume, namespace string) *csi.Volume {
	return codec.Copy(&csi.Volume{ID: v.ID, Name: v.Name, ExternalID: v.ExternalID, Namespace: namespace, PluginID: v.PluginID,
		RequestedTopologies: v.RequestedTopologies, Topologies: segmented(v.Topologies), MountOptions: v.MountOptions, Secrets: v.Secrets,
		Parameters: v.Parameters, Context: v.Context, Capacity: v.Capacity, RequestedCapacityMin: v.RequestedCapacityMin,
		RequestedCapacityMax: v.RequestedCapacityMax, RequestedCapabilities: v.RequestedCapabilities, CloneID: v.CloneID,
		SnapshotID: v.SnapshotID})
}

// segmented returns the topologies that have segments.
func segmented(all []*nomad.CSITopology) (out []*nomad.CSITopology) {
	for _, t := range all {
		if t != nil && len(t.Segments) > 0 {
			out = append(out, t)
		}
	}
	return out
}

// check returns an error if a requested volume is not valid.
func (s *Service) check(v *csi.Volume) error {
	if err := rules.CSIVolume(v); err != nil {
		return err
	}
	if s.Snapshot().Namespace(nil, v.Namespace) == nil {
		return fmt.Errorf("volume %s is in nonexistent namespace %s", v.ID, v.Namespace)
	}
	if len(v.Secrets) == 0 {
		return nil
	}
	if err := csisecret.Check(v.Secrets); err != nil {
		return err
	}
	return s.OnlyOurs("the encryption of secrets of CSI volumes") // the servers of other builds cannot open them
}

// usable returns the plugin of a volume, if it can serve a new or changed volume.
func usable(snap *state.Snapshot, v *csi.Volume) (*csi.Plugin, error) {
	p := snap.CSIPlugin(nil, v.PluginID)
	switch {
	case p == nil:
		return nil, fmt.Errorf("no CSI plugin named: %s could be found", v.PluginID)
	case p.ControllerRequired && p.ControllersHealthy == 0:
		return nil, fmt.Errorf("no healthy controllers for CSI plugin: %s", v.PluginID)
	}
	return p, nil
}

// able reports whether a controller of the plugin has a capability.
func able(p *csi.Plugin, has func(*nomad.CSIControllerInfo) bool) bool {
	for _, c := range p.Controllers {
		if c != nil && c.ControllerInfo != nil && has(c.ControllerInfo) {
			return true
		}
	}
	return false
}
