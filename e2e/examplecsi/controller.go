package main

import (
	"context"
	"maps"
	"os"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// controller is the service Controller.
type controller struct {
	csi.UnimplementedControllerServer
	config  config
	storage *storage
}

// defaultBytes is the size of a volume if the request has none.
const defaultBytes = 1 << 20

func (c *controller) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest,
) (*csi.ControllerGetCapabilitiesResponse, error) {
	kinds := []csi.ControllerServiceCapability_RPC_Type{csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_LIST_VOLUMES, csi.ControllerServiceCapability_RPC_GET_CAPACITY,
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT, csi.ControllerServiceCapability_RPC_LIST_SNAPSHOTS,
		csi.ControllerServiceCapability_RPC_CLONE_VOLUME, csi.ControllerServiceCapability_RPC_EXPAND_VOLUME}
	if c.config.attach {
		kinds = append(kinds, csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
			csi.ControllerServiceCapability_RPC_PUBLISH_READONLY, csi.ControllerServiceCapability_RPC_LIST_VOLUMES_PUBLISHED_NODES)
	}
	out := new(csi.ControllerGetCapabilitiesResponse)
	for _, kind := range kinds {
		out.Capabilities = append(out.Capabilities, &csi.ControllerServiceCapability{Type: &csi.ControllerServiceCapability_Rpc{
			Rpc: &csi.ControllerServiceCapability_RPC{Type: kind}}})
	}
	return out, nil
}

func (c *controller) CreateVolume(_ context.Context, req *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	if req.GetName() == "" || len(req.GetVolumeCapabilities()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "name and volume_capabilities must not be empty")
	}
	limit := req.GetCapacityRange().GetLimitBytes()
	v := &volume{ID: newID("vol", req.GetName()), Name: req.GetName(), Bytes: max(req.GetCapacityRange().GetRequiredBytes(), defaultBytes),
		Block: req.GetVolumeCapabilities()[0].GetBlock() != nil, Zone: c.zone(req.GetAccessibilityRequirements()),
		Snapshot: req.GetVolumeContentSource().GetSnapshot().GetSnapshotId(), Clone: req.GetVolumeContentSource().GetVolume().GetVolumeId(),
		Parameters: req.GetParameters(), Nodes: map[string]bool{}}
	for _, able := range req.GetVolumeCapabilities() {
		if (able.GetBlock() != nil) != v.Block {
			return nil, status.Error(codes.InvalidArgument, "a volume is a block device or a file system, not both")
		}
	}
	old, err := load[volume](c.storage, volumes, v.ID)
	if exists, err := found(err); err != nil {
		return nil, err
	} else if exists {
		if old.Bytes < req.GetCapacityRange().GetRequiredBytes() || limit > 0 && old.Bytes > limit || old.Block != v.Block ||
			old.Snapshot != v.Snapshot || old.Clone != v.Clone || !maps.Equal(old.Parameters, v.Parameters) {
			return nil, status.Errorf(codes.AlreadyExists, "volume %q exists with other properties", v.Name)
		}
		return &csi.CreateVolumeResponse{Volume: old.shown()}, nil
	}
	if err := c.fill(v); err != nil {
		return nil, err
	}
	free, err := c.free()
	if err != nil {
		return nil, err
	}
	if limit > 0 && v.Bytes > limit || v.Bytes > free {
		return nil, status.Errorf(codes.OutOfRange, "a volume of %d bytes is larger than the limit %d or the free space %d", v.Bytes, limit, free)
	}
	return &csi.CreateVolumeResponse{Volume: v.shown()}, c.storage.save(volumes, v.ID, v)
}

// zone returns the zone of a new volume: the first one that the request prefers or requires, or that of the plugin.
func (c *controller) zone(r *csi.TopologyRequirement) string {
	for _, t := range slices.Concat(r.GetPreferred(), r.GetRequisite()) {
		if zone := t.GetSegments()[zoneKey]; zone != "" && c.config.zone != "" {
			return zone
		}
	}
	return c.config.zone
}

// topology returns the topology of a zone, or nil without zones.
func topology(zone string) *csi.Topology {
	if zone == "" {
		return nil
	}
	return &csi.Topology{Segments: map[string]string{zoneKey: zone}}
}

// shown returns the volume as answers have it.
func (v *volume) shown() *csi.Volume {
	out := &csi.Volume{VolumeId: v.ID, CapacityBytes: v.Bytes, VolumeContext: map[string]string{"name": v.Name}}
	if v.Zone != "" {
		out.AccessibleTopology = []*csi.Topology{topology(v.Zone)}
	}
	switch {
	case v.Snapshot != "":
		out.ContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
			Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: v.Snapshot}}}
	case v.Clone != "":
		out.ContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{
			Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: v.Clone}}}
	}
	return out
}

// free returns the bytes that no volume has.
func (c *controller) free() (int64, error) {
	all, err := list[volume](c.storage, volumes)
	free := c.storage.capacity
	for _, v := range all {
		free -= v.Bytes
	}
	return free, err
}

func (c *controller) GetCapacity(_ context.Context, req *csi.GetCapacityRequest) (*csi.GetCapacityResponse, error) {
	free, err := c.free()
	return &csi.GetCapacityResponse{AvailableCapacity: max(free, 0)}, err
}

func (c *controller) DeleteVolume(_ context.Context, req *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	if req.GetVolumeId() == "" {
		return nil, status.Error(codes.InvalidArgument, "volume_id must not be empty")
	}
	v, err := load[volume](c.storage, volumes, req.GetVolumeId())
	if exists, err := found(err); !exists {
		return &csi.DeleteVolumeResponse{}, err
	}
	if len(v.Nodes) > 0 {
		return nil, status.Errorf(codes.FailedPrecondition, "volume %q is attached to a node", v.ID)
	}
	return &csi.DeleteVolumeResponse{}, c.storage.remove(volumes, v.ID)
}

func (c *controller) ValidateVolumeCapabilities(_ context.Context, req *csi.ValidateVolumeCapabilitiesRequest,
) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	if req.GetVolumeId() == "" || len(req.GetVolumeCapabilities()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "volume_id and volume_capabilities must not be empty")
	}
	v, err := load[volume](c.storage, volumes, req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	for _, able := range req.GetVolumeCapabilities() {
		if (able.GetBlock() != nil) != v.Block {
			return &csi.ValidateVolumeCapabilitiesResponse{Message: "the volume has another access type"}, nil
		}
	}
	return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeCapabilities: req.GetVolumeCapabilities()}}, nil
}

func (c *controller) ListVolumes(_ context.Context, req *csi.ListVolumesRequest) (*csi.ListVolumesResponse, error) {
	all, err := list[volume](c.storage, volumes)
	if err != nil {
		return nil, err
	}
	part, next, err := page(all, func(v *volume) string { return v.ID }, req.GetStartingToken(), req.GetMaxEntries())
	out := &csi.ListVolumesResponse{NextToken: next}
	for _, v := range part {
		out.Entries = append(out.Entries, &csi.ListVolumesResponse_Entry{Volume: v.shown(),
			Status: &csi.ListVolumesResponse_VolumeStatus{PublishedNodeIds: slices.Sorted(maps.Keys(v.Nodes))}})
	}
	return out, err
}

func (c *controller) ControllerExpandVolume(_ context.Context, req *csi.ControllerExpandVolumeRequest,
) (*csi.ControllerExpandVolumeResponse, error) {
	if req.GetVolumeId() == "" || req.GetCapacityRange() == nil {
		return nil, status.Error(codes.InvalidArgument, "volume_id and capacity_range must not be empty")
	}
	v, err := load[volume](c.storage, volumes, req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	free, err := c.free()
	if err != nil {
		return nil, err
	}
	if req.GetCapacityRange().GetRequiredBytes()-v.Bytes > free {
		return nil, status.Errorf(codes.OutOfRange, "the storage system has only %d bytes", free)
	}
	v.Bytes = max(v.Bytes, req.GetCapacityRange().GetRequiredBytes())
	if v.Block {
		if err := os.Truncate(c.storage.path(volumes, v.ID), v.Bytes); err != nil {
			return nil, err
		}
	}
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: v.Bytes, NodeExpansionRequired: true}, c.storage.save(volumes, v.ID, v)
}
