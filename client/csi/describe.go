package csi

import (
	"context"
	"math"

	spec "github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/open-nomad/open-nomad/nomad"
)

// Info is the name and the version of a plugin's program.
type Info struct{ Name, Version string }

// Traits are the capabilities of a plugin as a whole.
type Traits struct {
	RequiresController bool // it has the service Controller
	RequiresTopologies bool // a volume is accessible from some nodes only
}

// Capabilities that version 1.13 of the specification has removed. Plugins of earlier versions have them.
const (
	controllerVolumeCondition spec.ControllerServiceCapability_RPC_Type = 11
	nodeVolumeCondition       spec.NodeServiceCapability_RPC_Type       = 4
)

// Probe reports whether the plugin is ready. A plugin that does not answer the question is.
func (p *Plugin) Probe(ctx context.Context) (ready bool, err error) {
	err = p.do(ctx, call{name: "Probe", limit: probeLimit}, func(ctx context.Context) error {
		answer, err := p.identity.Probe(ctx, &spec.ProbeRequest{})
		ready = answer.GetReady() == nil || answer.GetReady().GetValue()
		return err
	})
	return ready && err == nil, err
}

// Info returns the name and version of the plugin's program.
func (p *Plugin) Info(ctx context.Context) (out Info, err error) {
	err = p.do(ctx, call{name: "GetPluginInfo", limit: probeLimit}, func(ctx context.Context) error {
		answer, err := p.identity.GetPluginInfo(ctx, &spec.GetPluginInfoRequest{})
		if err != nil {
			return err
		}
		out = Info{Name: answer.GetName(), Version: answer.GetVendorVersion()}
		if out.Name == "" {
			return invalidf("the name is empty")
		}
		if err := checkText("the name", out.Name, maxString); err != nil {
			return err
		}
		return checkText("the version", out.Version, maxString)
	})
	if err != nil {
		return Info{}, err
	}
	return out, nil
}

// Traits returns the capabilities of the plugin as a whole.
func (p *Plugin) Traits(ctx context.Context) (out Traits, err error) {
	err = p.do(ctx, call{name: "GetPluginCapabilities", limit: describeLimit}, func(ctx context.Context) error {
		answer, err := p.identity.GetPluginCapabilities(ctx, &spec.GetPluginCapabilitiesRequest{})
		for _, c := range answer.GetCapabilities() {
			switch c.GetService().GetType() {
			case spec.PluginCapability_Service_CONTROLLER_SERVICE:
				out.RequiresController = true
			case spec.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS:
				out.RequiresTopologies = true
			}
		}
		return err
	})
	return out, err
}

// ControllerInfo returns the capabilities of the service Controller.
func (p *Plugin) ControllerInfo(ctx context.Context) (*nomad.CSIControllerInfo, error) {
	out := new(nomad.CSIControllerInfo)
	fields := map[spec.ControllerServiceCapability_RPC_Type]*bool{
		spec.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME:         &out.SupportsCreateDelete,
		spec.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME:     &out.SupportsAttachDetach,
		spec.ControllerServiceCapability_RPC_LIST_VOLUMES:                 &out.SupportsListVolumes,
		spec.ControllerServiceCapability_RPC_GET_CAPACITY:                 &out.SupportsGetCapacity,
		spec.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT:       &out.SupportsCreateDeleteSnapshot,
		spec.ControllerServiceCapability_RPC_LIST_SNAPSHOTS:               &out.SupportsListSnapshots,
		spec.ControllerServiceCapability_RPC_CLONE_VOLUME:                 &out.SupportsClone,
		spec.ControllerServiceCapability_RPC_PUBLISH_READONLY:             &out.SupportsReadOnlyAttach,
		spec.ControllerServiceCapability_RPC_EXPAND_VOLUME:                &out.SupportsExpand,
		spec.ControllerServiceCapability_RPC_LIST_VOLUMES_PUBLISHED_NODES: &out.SupportsListVolumesAttachedNodes,
		controllerVolumeCondition:                                         &out.SupportsCondition,
		spec.ControllerServiceCapability_RPC_GET_VOLUME:                   &out.SupportsGet,
	}
	c := call{name: "ControllerGetCapabilities", service: controllerService, limit: describeLimit}
	err := p.do(ctx, c, func(ctx context.Context) error {
		answer, err := p.controller.ControllerGetCapabilities(ctx, &spec.ControllerGetCapabilitiesRequest{})
		for _, one := range answer.GetCapabilities() {
			if field := fields[one.GetRpc().GetType()]; field != nil {
				*field = true
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// NodeInfo returns the node's ID in the storage system, its limits, and the capabilities of the service Node.
func (p *Plugin) NodeInfo(ctx context.Context) (*nomad.CSINodeInfo, error) {
	out := new(nomad.CSINodeInfo)
	c := call{name: "NodeGetInfo", service: nodeService, limit: describeLimit}
	err := p.do(ctx, c, func(ctx context.Context) error {
		answer, err := p.node.NodeGetInfo(ctx, &spec.NodeGetInfoRequest{})
		if err != nil {
			return err
		}
		return nodeInfo(answer, out)
	})
	if err != nil {
		return nil, err
	}
	return p.NodeCapabilities(ctx, out)
}

// nodeInfo sets what NodeGetInfo has answered.
func nodeInfo(answer *spec.NodeGetInfoResponse, out *nomad.CSINodeInfo) (err error) {
	if answer.GetNodeId() == "" {
		return invalidf("plugin failed to return nodeid")
	}
	if err := checkID("the node ID", answer.GetNodeId()); err != nil {
		return err
	}
	out.ID, out.MaxVolumes = answer.GetNodeId(), answer.GetMaxVolumesPerNode()
	if out.MaxVolumes < 0 {
		return invalidf("max_volumes_per_node is %d, which is negative", out.MaxVolumes)
	}
	if out.MaxVolumes == 0 {
		out.MaxVolumes = math.MaxInt64
	}
	out.AccessibleTopology, err = topology(answer.GetAccessibleTopology())
	return err
}

// NodeCapabilities returns a copy of what NodeInfo returned earlier, with the capabilities that the service Node has now.
func (p *Plugin) NodeCapabilities(ctx context.Context, earlier *nomad.CSINodeInfo) (*nomad.CSINodeInfo, error) {
	out := &nomad.CSINodeInfo{ID: earlier.ID, MaxVolumes: earlier.MaxVolumes, AccessibleTopology: earlier.AccessibleTopology}
	fields := map[spec.NodeServiceCapability_RPC_Type]*bool{
		spec.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME: &out.RequiresNodeStageVolume,
		spec.NodeServiceCapability_RPC_GET_VOLUME_STATS:     &out.SupportsStats,
		spec.NodeServiceCapability_RPC_EXPAND_VOLUME:        &out.SupportsExpand,
		nodeVolumeCondition:                                 &out.SupportsCondition,
	}
	c := call{name: "NodeGetCapabilities", service: nodeService, limit: describeLimit}
	err := p.do(ctx, c, func(ctx context.Context) error {
		answer, err := p.node.NodeGetCapabilities(ctx, &spec.NodeGetCapabilitiesRequest{})
		for _, one := range answer.GetCapabilities() {
			if field := fields[one.GetRpc().GetType()]; field != nil {
				*field = true
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
