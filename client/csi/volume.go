package csi

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	spec "github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// CreateVolume creates a volume, empty or with the content of a snapshot or of another volume.
func (p *Plugin) CreateVolume(ctx context.Context, req *message.ClientCSIControllerCreateVolumeRequest,
) (*message.ClientCSIControllerCreateVolumeResponse, error) {
	if req.Name == "" {
		return nil, errors.New("missing Name")
	}
	able, err := capabilities(req.VolumeCapabilities, req.MountOptions)
	if err != nil {
		return nil, err
	}
	c := change(controllerService, "CreateVolume")
	c.texts = createTexts
	c.hide(req.Secrets, req.MountOptions)
	c.subject = subject{req.Name, cmp.Or(req.SnapshotID, req.CloneID)}
	out := new(message.ClientCSIControllerCreateVolumeResponse)
	return out, p.do(ctx, c, func(ctx context.Context) error {
		answer, err := p.controller.CreateVolume(ctx, &spec.CreateVolumeRequest{Name: req.Name, VolumeCapabilities: able,
			CapacityRange: capacity(csi.CapacityRange{RequiredBytes: req.CapacityMin, LimitBytes: req.CapacityMax}),
			Parameters:    req.Parameters, Secrets: req.Secrets, VolumeContentSource: source(req),
			AccessibilityRequirements: requirement(req.RequestedTopologies)})
		if err != nil {
			return err
		}
		*out, err = created(answer.GetVolume())
		if err != nil {
			return err
		}
		return sameSource(req, answer.GetVolume().GetContentSource())
	})
}

// source returns what a new volume contains. An empty volume has none.
func source(req *message.ClientCSIControllerCreateVolumeRequest) *spec.VolumeContentSource {
	switch {
	case req.SnapshotID != "":
		return &spec.VolumeContentSource{Type: &spec.VolumeContentSource_Snapshot{
			Snapshot: &spec.VolumeContentSource_SnapshotSource{SnapshotId: req.SnapshotID}}}
	case req.CloneID != "":
		return &spec.VolumeContentSource{Type: &spec.VolumeContentSource_Volume{
			Volume: &spec.VolumeContentSource_VolumeSource{VolumeId: req.CloneID}}}
	}
	return nil
}

// sameSource checks that a new volume has the content that was requested. Plugins may leave it out of their answer.
func sameSource(req *message.ClientCSIControllerCreateVolumeRequest, got *spec.VolumeContentSource) error {
	snapshot, volume := got.GetSnapshot().GetSnapshotId(), got.GetVolume().GetVolumeId()
	if snapshot == "" && volume == "" {
		return nil
	}
	if snapshot != req.SnapshotID || volume != req.CloneID {
		return invalidf("the volume has the content of snapshot %q and volume %q, want snapshot %q and volume %q",
			short(snapshot), short(volume), req.SnapshotID, req.CloneID)
	}
	return nil
}

// requirement converts the requested topologies. A request without any is not sent: the specification demands one.
func requirement(r *csi.TopologyRequest) *spec.TopologyRequirement {
	if r == nil {
		return nil
	}
	out := &spec.TopologyRequirement{Requisite: requested(r.Required), Preferred: requested(r.Preferred)}
	if len(out.GetRequisite())+len(out.GetPreferred()) == 0 {
		return nil
	}
	return out
}

func requested(list []*nomad.CSITopology) (out []*spec.Topology) {
	for _, t := range list {
		if t != nil && len(t.Segments) > 0 {
			out = append(out, &spec.Topology{Segments: t.Segments})
		}
	}
	return out
}

// created checks and converts a new volume.
func created(v *spec.Volume) (out message.ClientCSIControllerCreateVolumeResponse, err error) {
	if v == nil {
		return out, invalidf("it has no volume")
	}
	places, err := topologies(v.GetAccessibleTopology())
	err = cmp.Or(err, checkID("the volume ID", v.GetVolumeId()), checkBytes("the capacity", v.GetCapacityBytes()),
		checkMap("the volume context", v.GetVolumeContext()))
	if err != nil {
		return out, err
	}
	out.ExternalVolumeID, out.CapacityBytes, out.Topologies = v.GetVolumeId(), v.GetCapacityBytes(), places
	out.VolumeContext = maps.Clone(v.GetVolumeContext())
	return out, nil
}

// DeleteVolume deletes a volume with its data.
func (p *Plugin) DeleteVolume(ctx context.Context, req *message.ClientCSIControllerDeleteVolumeRequest,
) (*message.ClientCSIControllerDeleteVolumeResponse, error) {
	if req.ExternalVolumeID == "" {
		return nil, errNoVolume
	}
	c := change(controllerService, "DeleteVolume")
	c.texts, c.subject = deleteTexts, subject{volume: req.ExternalVolumeID}
	c.hide(req.Secrets, nil)
	return new(message.ClientCSIControllerDeleteVolumeResponse), p.do(ctx, c, func(ctx context.Context) error {
		_, err := p.controller.DeleteVolume(ctx, &spec.DeleteVolumeRequest{VolumeId: req.ExternalVolumeID, Secrets: req.Secrets})
		return err
	})
}

// ExpandVolume makes a volume larger.
func (p *Plugin) ExpandVolume(ctx context.Context, req *message.ClientCSIControllerExpandVolumeRequest,
) (*message.ClientCSIControllerExpandVolumeResponse, error) {
	if req.ExternalVolumeID == "" {
		return nil, errNoVolume
	}
	if req.CapacityRange == nil {
		return nil, errors.New("missing capacity range")
	}
	c := change(controllerService, "ControllerExpandVolume")
	c.texts, c.subject = expandTexts, subject{volume: req.ExternalVolumeID}
	c.hide(req.Secrets, nil)
	out := new(message.ClientCSIControllerExpandVolumeResponse)
	return out, p.do(ctx, c, func(ctx context.Context) error {
		answer, err := p.controller.ControllerExpandVolume(ctx, &spec.ControllerExpandVolumeRequest{VolumeId: req.ExternalVolumeID,
			CapacityRange: capacity(*req.CapacityRange), Secrets: req.Secrets})
		out.CapacityBytes, out.NodeExpansionRequired = answer.GetCapacityBytes(), answer.GetNodeExpansionRequired()
		return cmp.Or(err, checkBytes("the capacity", out.CapacityBytes))
	})
}

// ListVolumes returns a page of the volumes of the storage system.
func (p *Plugin) ListVolumes(ctx context.Context, req *message.ClientCSIControllerListVolumesRequest,
) (*message.ClientCSIControllerListVolumesResponse, error) {
	out := new(message.ClientCSIControllerListVolumesResponse)
	return out, p.do(ctx, change(controllerService, "ListVolumes"), func(ctx context.Context) error {
		answer, err := p.controller.ListVolumes(ctx, &spec.ListVolumesRequest{MaxEntries: req.MaxEntries, StartingToken: req.StartingToken})
		if err != nil {
			return err
		}
		if err := checkPage(len(answer.GetEntries()), answer.GetNextToken()); err != nil {
			return err
		}
		out.NextToken, out.Entries = answer.GetNextToken(), nil
		for _, e := range answer.GetEntries() {
			if e.GetVolume() == nil {
				continue
			}
			stub, err := listed(e)
			if err != nil {
				return err
			}
			out.Entries = append(out.Entries, stub)
		}
		return nil
	})
}

// checkPage checks the size of a page and its token.
func checkPage(entries int, next string) error {
	if entries > maxEntries {
		return invalidf("the page has %d entries, at most %d are allowed: request fewer with per_page", entries, maxEntries)
	}
	return checkText("the token of the next page", next, maxToken)
}

// listed checks and converts a volume of a list.
func listed(e *spec.ListVolumesResponse_Entry) (*csi.ExternalStub, error) {
	v, st := e.GetVolume(), e.GetStatus()
	out := &csi.ExternalStub{ExternalID: v.GetVolumeId(), CapacityBytes: v.GetCapacityBytes(), VolumeContext: maps.Clone(v.GetVolumeContext()),
		CloneID:                  v.GetContentSource().GetVolume().GetVolumeId(),
		SnapshotID:               v.GetContentSource().GetSnapshot().GetSnapshotId(),
		PublishedExternalNodeIDs: slices.Clone(st.GetPublishedNodeIds())}
	out.IsAbnormal, out.Status = condition(st.ProtoReflect().GetUnknown())
	if len(out.PublishedExternalNodeIDs) > maxPublished {
		return nil, invalidf("a volume is published on %d nodes, at most %d are allowed", len(out.PublishedExternalNodeIDs), maxPublished)
	}
	for _, id := range out.PublishedExternalNodeIDs {
		if err := checkID("a node ID", id); err != nil {
			return nil, err
		}
	}
	return out, cmp.Or(checkID("a volume ID", out.ExternalID), checkText("the ID of a source", out.CloneID+out.SnapshotID, maxID),
		checkBytes("the capacity", out.CapacityBytes), checkMap("a volume context", out.VolumeContext))
}
