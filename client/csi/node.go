package csi

import (
	"cmp"
	"context"
	"errors"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
)

// errNoPath is the error of a request without a path.
var errNoPath = errors.New("missing path")

// NodeRequest is the request of NodeStage and NodePublish. The paths are those that the plugin sees.
type NodeRequest struct {
	VolumeID       string // the external ID
	Staging        string // "" for a plugin that does not stage
	Target         string // where the volume is published; not used by NodeStage
	Capability     csi.Capability
	Options        *nomad.CSIMountOptions
	ReadOnly       bool // not used by NodeStage
	PublishContext map[string]string
	VolumeContext  map[string]string
	Secrets        csi.Secrets
}

// NodeStage prepares a volume on the node, for all its users there.
func (p *Plugin) NodeStage(ctx context.Context, req *NodeRequest) error {
	if err := required(req.VolumeID, req.Staging); err != nil {
		return err
	}
	able, err := capability(req.Capability, req.Options)
	if err != nil {
		return err
	}
	c := change(nodeService, "NodeStageVolume")
	c.texts, c.subject = stageTexts, subject{req.VolumeID, req.Staging}
	c.hide(req.Secrets, req.Options)
	return p.do(ctx, c, func(ctx context.Context) error {
		_, err := p.node.NodeStageVolume(ctx, &spec.NodeStageVolumeRequest{VolumeId: req.VolumeID, PublishContext: req.PublishContext,
			StagingTargetPath: req.Staging, VolumeCapability: able, Secrets: req.Secrets, VolumeContext: req.VolumeContext})
		return err
	})
}

// NodePublish makes a volume available at the target path.
func (p *Plugin) NodePublish(ctx context.Context, req *NodeRequest) error {
	if err := required(req.VolumeID, req.Target); err != nil {
		return err
	}
	able, err := capability(req.Capability, req.Options)
	if err != nil {
		return err
	}
	c := change(nodeService, "NodePublishVolume")
	c.texts, c.subject = publishTexts, subject{req.VolumeID, req.Target}
	c.hide(req.Secrets, req.Options)
	return p.do(ctx, c, func(ctx context.Context) error {
		_, err := p.node.NodePublishVolume(ctx, &spec.NodePublishVolumeRequest{VolumeId: req.VolumeID, PublishContext: req.PublishContext,
			StagingTargetPath: req.Staging, TargetPath: req.Target, VolumeCapability: able, Readonly: req.ReadOnly,
			Secrets: req.Secrets, VolumeContext: req.VolumeContext})
		return err
	})
}

// NodeUnpublish ends what NodePublish did. A volume that does not exist is not an error.
func (p *Plugin) NodeUnpublish(ctx context.Context, volume, target string) error {
	if err := required(volume, target); err != nil {
		return err
	}
	return unlessGone(p.do(ctx, change(nodeService, "NodeUnpublishVolume"), func(ctx context.Context) error {
		_, err := p.node.NodeUnpublishVolume(ctx, &spec.NodeUnpublishVolumeRequest{VolumeId: volume, TargetPath: target})
		return err
	}))
}

// NodeUnstage ends what NodeStage did. A volume that does not exist is not an error.
func (p *Plugin) NodeUnstage(ctx context.Context, volume, staging string) error {
	if err := required(volume, staging); err != nil {
		return err
	}
	return unlessGone(p.do(ctx, change(nodeService, "NodeUnstageVolume"), func(ctx context.Context) error {
		_, err := p.node.NodeUnstageVolume(ctx, &spec.NodeUnstageVolumeRequest{VolumeId: volume, StagingTargetPath: staging})
		return err
	}))
}

// ExpandRequest is the request of NodeExpand. The paths are those that the plugin sees.
type ExpandRequest struct {
	Volume     string // the external ID
	Path       string // where the volume is published
	Staging    string // "" for a plugin that does not stage
	Capacity   *csi.CapacityRange
	Capability csi.Capability // optional
	Options    *nomad.CSIMountOptions
	Secrets    csi.Secrets
}

// NodeExpand makes the file system of a volume as large as the volume, and returns the new size. The size is 0 if the plugin
// does not know it. A volume that does not exist is not an error.
func (p *Plugin) NodeExpand(ctx context.Context, req ExpandRequest) (bytes int64, err error) {
	if err := required(req.Volume, req.Path); err != nil {
		return 0, err
	}
	sent := &spec.NodeExpandVolumeRequest{VolumeId: req.Volume, VolumePath: req.Path, StagingTargetPath: req.Staging, Secrets: req.Secrets}
	if req.Capacity != nil {
		sent.CapacityRange = capacity(*req.Capacity)
	}
	if req.Capability != (csi.Capability{}) {
		if sent.VolumeCapability, err = capability(req.Capability, req.Options); err != nil {
			return 0, err
		}
	}
	c := change(nodeService, "NodeExpandVolume")
	c.texts, c.subject = nodeExpandTexts, subject{volume: req.Volume}
	c.hide(req.Secrets, req.Options)
	err = p.do(ctx, c, func(ctx context.Context) error {
		answer, err := p.node.NodeExpandVolume(ctx, sent)
		bytes = answer.GetCapacityBytes()
		return cmp.Or(err, checkBytes("the capacity", bytes))
	})
	if Code(err) == codes.NotFound {
		return 0, nil
	}
	return bytes, err
}

// required checks the volume and the path of a request.
func required(volume, path string) error {
	switch {
	case volume == "":
		return errNoVolume
	case path == "":
		return errNoPath
	}
	return nil
}
