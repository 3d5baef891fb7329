package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// node is the service Node. A volume is mounted from the storage system to its staging path, and from there to the target paths
// of its users. A block device is a file in the staging path.
type node struct {
	csi.UnimplementedNodeServer
	config  config
	storage *storage
}

// blockFile is the name of a block device in the staging path.
const blockFile = "device"

func (n *node) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	kinds := []csi.NodeServiceCapability_RPC_Type{csi.NodeServiceCapability_RPC_EXPAND_VOLUME, csi.NodeServiceCapability_RPC_GET_VOLUME_STATS}
	if n.config.stage {
		kinds = append(kinds, csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME)
	}
	out := new(csi.NodeGetCapabilitiesResponse)
	for _, kind := range kinds {
		out.Capabilities = append(out.Capabilities, &csi.NodeServiceCapability{Type: &csi.NodeServiceCapability_Rpc{
			Rpc: &csi.NodeServiceCapability_RPC{Type: kind}}})
	}
	return out, nil
}

func (n *node) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: n.config.node, MaxVolumesPerNode: n.config.maxVolumes,
		AccessibleTopology: topology(n.config.zone)}, nil
}

// usable returns a volume that may be used on this node, and the flags of its mount.
func (n *node) usable(id string, able *csi.VolumeCapability) (*volume, uintptr, error) {
	v, err := load[volume](n.storage, volumes, id)
	if err != nil {
		return nil, 0, err
	}
	_, attached := v.Nodes[n.config.node]
	switch {
	case n.config.controller && n.config.attach && !attached:
		return nil, 0, status.Errorf(codes.FailedPrecondition, "volume %q is not attached to node %q", id, n.config.node)
	case v.Zone != n.config.zone:
		return nil, 0, status.Errorf(codes.FailedPrecondition, "volume %q is in zone %q, not %q", id, v.Zone, n.config.zone)
	case (able.GetBlock() != nil) != v.Block:
		return nil, 0, status.Errorf(codes.InvalidArgument, "volume %q has another access type", id)
	case able.GetMount().GetFsType() != "":
		return nil, 0, status.Error(codes.InvalidArgument, "fs_type must be empty: volumes are directories")
	}
	flags, err := parse(able.GetMount().GetMountFlags())
	return v, flags, err
}

func (n *node) NodeStageVolume(_ context.Context, req *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	if req.GetVolumeId() == "" || req.GetStagingTargetPath() == "" || req.GetVolumeCapability() == nil {
		return nil, status.Error(codes.InvalidArgument, "volume_id, staging_target_path and volume_capability must not be empty")
	}
	v, flags, err := n.usable(req.GetVolumeId(), req.GetVolumeCapability())
	if err != nil {
		return nil, err
	}
	return &csi.NodeStageVolumeResponse{}, n.mount(v, n.staged(v, req.GetStagingTargetPath()), flags)
}

// staged returns where a volume is mounted in its staging path.
func (n *node) staged(v *volume, path string) string {
	if v.Block {
		return filepath.Join(path, blockFile)
	}
	return path
}

// mount mounts a volume of the storage system.
func (n *node) mount(v *volume, at string, flags uintptr) (err error) {
	from := n.storage.path(volumes, v.ID)
	if v.Block {
		if from, err = attachLoop(from); err != nil {
			return err
		}
		err = touch(at)
	} else {
		err = os.MkdirAll(at, 0o700)
	}
	if err != nil {
		return err
	}
	return bind(from, at, flags)
}

func (n *node) NodeUnstageVolume(_ context.Context, req *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	if req.GetVolumeId() == "" || req.GetStagingTargetPath() == "" {
		return nil, status.Error(codes.InvalidArgument, "volume_id and staging_target_path must not be empty")
	}
	if err := unbind(req.GetStagingTargetPath()); err != nil {
		return nil, err
	}
	return &csi.NodeUnstageVolumeResponse{}, n.release(req.GetVolumeId(), filepath.Join(req.GetStagingTargetPath(), blockFile))
}

// release unmounts and removes the file of a block device, and the device with its last file.
func (n *node) release(id, at string) error {
	if err := unbind(at); err != nil {
		return err
	}
	if err := os.Remove(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return detachLoop(n.storage.path(volumes, id))
}

func (n *node) NodePublishVolume(_ context.Context, req *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	if req.GetVolumeId() == "" || req.GetTargetPath() == "" || req.GetVolumeCapability() == nil {
		return nil, status.Error(codes.InvalidArgument, "volume_id, target_path and volume_capability must not be empty")
	}
	v, flags, err := n.usable(req.GetVolumeId(), req.GetVolumeCapability())
	if err != nil {
		return nil, err
	}
	if req.GetReadonly() {
		flags |= unix.MS_RDONLY
	}
	if !n.config.stage {
		return &csi.NodePublishVolumeResponse{}, n.mount(v, req.GetTargetPath(), flags)
	}
	from := n.staged(v, req.GetStagingTargetPath())
	if is, err := mounted(from); !is || req.GetStagingTargetPath() == "" {
		return nil, errors.Join(status.Errorf(codes.FailedPrecondition, "volume %q is not staged at %q", v.ID, from), err)
	}
	if v.Block {
		err = touch(req.GetTargetPath())
	} else {
		err = os.MkdirAll(req.GetTargetPath(), 0o700)
	}
	if err != nil {
		return nil, err
	}
	return &csi.NodePublishVolumeResponse{}, bind(from, req.GetTargetPath(), flags)
}

func (n *node) NodeUnpublishVolume(_ context.Context, req *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	if req.GetVolumeId() == "" || req.GetTargetPath() == "" {
		return nil, status.Error(codes.InvalidArgument, "volume_id and target_path must not be empty")
	}
	return &csi.NodeUnpublishVolumeResponse{}, n.release(req.GetVolumeId(), req.GetTargetPath())
}

func (n *node) NodeExpandVolume(_ context.Context, req *csi.NodeExpandVolumeRequest) (*csi.NodeExpandVolumeResponse, error) {
	v, err := n.at(req.GetVolumeId(), req.GetVolumePath())
	if err != nil {
		return nil, err
	}
	return &csi.NodeExpandVolumeResponse{CapacityBytes: v.Bytes}, growLoop(n.storage.path(volumes, v.ID))
}

func (n *node) NodeGetVolumeStats(_ context.Context, req *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	v, err := n.at(req.GetVolumeId(), req.GetVolumePath())
	if err != nil {
		return nil, err
	}
	return &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{{Unit: csi.VolumeUsage_BYTES, Total: v.Bytes}}}, nil
}

// at returns a volume that is mounted at a path.
func (n *node) at(id, path string) (*volume, error) {
	if id == "" || path == "" {
		return nil, status.Error(codes.InvalidArgument, "volume_id and volume_path must not be empty")
	}
	v, err := load[volume](n.storage, volumes, id)
	if err != nil {
		return nil, err
	}
	if is, err := mounted(path); !is {
		return nil, errors.Join(status.Errorf(codes.NotFound, "volume %q is not mounted at %q", id, path), err)
	}
	return v, nil
}
