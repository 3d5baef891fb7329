package main

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// singleNode are the access modes in which a volume is attached to one node.
var singleNode = map[csi.VolumeCapability_AccessMode_Mode]bool{
	csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER:      true,
	csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY: true,
}

func (c *controller) ControllerPublishVolume(_ context.Context, req *csi.ControllerPublishVolumeRequest,
) (*csi.ControllerPublishVolumeResponse, error) {
	if req.GetVolumeId() == "" || req.GetNodeId() == "" || req.GetVolumeCapability() == nil {
		return nil, status.Error(codes.InvalidArgument, "volume_id, node_id and volume_capability must not be empty")
	}
	v, err := load[volume](c.storage, volumes, req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	to, err := load[member](c.storage, nodes, req.GetNodeId())
	if err != nil {
		return nil, err
	}
	readOnly, attached := v.Nodes[req.GetNodeId()]
	switch {
	case attached && readOnly != req.GetReadonly():
		return nil, status.Errorf(codes.AlreadyExists, "volume %q is attached with another value of readonly", v.ID)
	case attached:
	case len(v.Nodes) > 0 && singleNode[req.GetVolumeCapability().GetAccessMode().GetMode()]:
		return nil, status.Errorf(codes.FailedPrecondition, "volume %q is attached to another node", v.ID)
	default:
		if err := c.room(req.GetNodeId(), to.MaxVolumes); err != nil {
			return nil, err
		}
		v.Nodes[req.GetNodeId()] = req.GetReadonly()
		if err := c.storage.save(volumes, v.ID, v); err != nil {
			return nil, err
		}
	}
	return &csi.ControllerPublishVolumeResponse{PublishContext: map[string]string{"node": req.GetNodeId()}}, nil
}

// room returns an error if a node has its maximum of volumes.
func (c *controller) room(node string, most int64) error {
	all, err := list[volume](c.storage, volumes)
	for _, v := range all {
		if _, attached := v.Nodes[node]; attached {
			most--
			if most == 0 {
				return status.Errorf(codes.ResourceExhausted, "node %q has its maximum of volumes", node)
			}
		}
	}
	return err
}

func (c *controller) ControllerUnpublishVolume(_ context.Context, req *csi.ControllerUnpublishVolumeRequest,
) (*csi.ControllerUnpublishVolumeResponse, error) {
	if req.GetVolumeId() == "" {
		return nil, status.Error(codes.InvalidArgument, "volume_id must not be empty")
	}
	v, err := load[volume](c.storage, volumes, req.GetVolumeId())
	if exists, err := found(err); !exists {
		return &csi.ControllerUnpublishVolumeResponse{}, err
	}
	if delete(v.Nodes, req.GetNodeId()); req.GetNodeId() == "" {
		clear(v.Nodes)
	}
	return &csi.ControllerUnpublishVolumeResponse{}, c.storage.save(volumes, v.ID, v)
}
