package csi

import (
	"context"
	"errors"
	"maps"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// The errors of requests that name no volume or node.
var (
	errNoVolume = errors.New("missing volume ID")
	errNoNode   = errors.New("missing node ID")
)

// AttachVolume makes a volume available on a node (ControllerPublishVolume).
func (p *Plugin) AttachVolume(ctx context.Context, req *message.ClientCSIControllerAttachVolumeRequest,
) (*message.ClientCSIControllerAttachVolumeResponse, error) {
	if req.VolumeID == "" {
		return nil, errNoVolume
	}
	if req.ClientCSINodeID == "" {
		return nil, errNoNode
	}
	var options *nomad.CSIMountOptions
	if req.MountOptions != nil {
		options = &nomad.CSIMountOptions{FSType: req.MountOptions.Filesystem, MountFlags: req.MountOptions.MountFlags}
	}
	able, err := capability(csi.Capability{AccessMode: req.AccessMode, AttachmentMode: req.AttachmentMode}, options)
	if err != nil {
		return nil, err
	}
	c := change(controllerService, "ControllerPublishVolume")
	c.texts, c.subject = attachTexts, subject{req.VolumeID, req.ClientCSINodeID}
	c.hide(req.Secrets, options)
	out := new(message.ClientCSIControllerAttachVolumeResponse)
	return out, p.do(ctx, c, func(ctx context.Context) error {
		answer, err := p.controller.ControllerPublishVolume(ctx, &spec.ControllerPublishVolumeRequest{VolumeId: req.VolumeID,
			NodeId: req.ClientCSINodeID, VolumeCapability: able, Readonly: req.ReadOnly, Secrets: req.Secrets, VolumeContext: req.VolumeContext})
		if err != nil {
			return err
		}
		out.PublishContext = maps.Clone(answer.GetPublishContext())
		return checkMap("the publish context", out.PublishContext)
	})
}

// DetachVolume ends what AttachVolume did (ControllerUnpublishVolume). A volume or node that does not exist is not an error.
func (p *Plugin) DetachVolume(ctx context.Context, req *message.ClientCSIControllerDetachVolumeRequest,
) (*message.ClientCSIControllerDetachVolumeResponse, error) {
	if req.VolumeID == "" {
		return nil, errNoVolume
	}
	if req.ClientCSINodeID == "" {
		return nil, errNoNode // for the plugin, it would mean all nodes
	}
	c := change(controllerService, "ControllerUnpublishVolume")
	c.hide(req.Secrets, nil)
	err := p.do(ctx, c, func(ctx context.Context) error {
		_, err := p.controller.ControllerUnpublishVolume(ctx, &spec.ControllerUnpublishVolumeRequest{VolumeId: req.VolumeID,
			NodeId: req.ClientCSINodeID, Secrets: req.Secrets})
		return err
	})
	return new(message.ClientCSIControllerDetachVolumeResponse), unlessGone(err)
}

// unlessGone returns nil for an error which means that the object of a removal does not exist.
func unlessGone(err error) error {
	if Code(err) == codes.NotFound {
		return nil
	}
	return err
}
