package csi

import (
	"cmp"
	"context"
	"errors"

	spec "github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// CreateSnapshot creates a snapshot of a volume.
func (p *Plugin) CreateSnapshot(ctx context.Context, req *message.ClientCSIControllerCreateSnapshotRequest,
) (*message.ClientCSIControllerCreateSnapshotResponse, error) {
	if req.ExternalSourceVolumeID == "" {
		return nil, errNoVolume
	}
	if req.Name == "" {
		return nil, errors.New("missing Name")
	}
	c := change(controllerService, "CreateSnapshot")
	c.texts, c.subject = createSnapshotTexts, subject{req.Name, req.ExternalSourceVolumeID}
	c.hide(req.Secrets, nil)
	out := new(message.ClientCSIControllerCreateSnapshotResponse)
	return out, p.do(ctx, c, func(ctx context.Context) error {
		answer, err := p.controller.CreateSnapshot(ctx, &spec.CreateSnapshotRequest{SourceVolumeId: req.ExternalSourceVolumeID,
			Name: req.Name, Secrets: req.Secrets, Parameters: req.Parameters})
		if err != nil {
			return err
		}
		s := answer.GetSnapshot()
		if err := checkSnapshot(s); err != nil {
			return err
		}
		if s.GetSourceVolumeId() != req.ExternalSourceVolumeID {
			return invalidf("the snapshot is of volume %q, want %q", short(s.GetSourceVolumeId()), req.ExternalSourceVolumeID)
		}
		*out = message.ClientCSIControllerCreateSnapshotResponse{ID: s.GetSnapshotId(), ExternalSourceVolumeID: s.GetSourceVolumeId(),
			SizeBytes: s.GetSizeBytes(), CreateTime: s.GetCreationTime().GetSeconds(), IsReady: s.GetReadyToUse()}
		return nil
	})
}

// checkSnapshot checks a snapshot of an answer.
func checkSnapshot(s *spec.Snapshot) error {
	if s == nil {
		return invalidf("it has no snapshot")
	}
	return cmp.Or(checkID("the snapshot ID", s.GetSnapshotId()), checkText("the ID of the source volume", s.GetSourceVolumeId(), maxID),
		checkBytes("the size of the snapshot", s.GetSizeBytes()))
}

// DeleteSnapshot deletes a snapshot.
func (p *Plugin) DeleteSnapshot(ctx context.Context, req *message.ClientCSIControllerDeleteSnapshotRequest,
) (*message.ClientCSIControllerDeleteSnapshotResponse, error) {
	if req.ID == "" {
		return nil, errors.New("missing snapshot ID")
	}
	c := change(controllerService, "DeleteSnapshot")
	c.texts, c.subject = deleteSnapshotTexts, subject{volume: req.ID}
	c.hide(req.Secrets, nil)
	return new(message.ClientCSIControllerDeleteSnapshotResponse), p.do(ctx, c, func(ctx context.Context) error {
		_, err := p.controller.DeleteSnapshot(ctx, &spec.DeleteSnapshotRequest{SnapshotId: req.ID, Secrets: req.Secrets})
		return err
	})
}

// ListSnapshots returns a page of the snapshots of the storage system.
func (p *Plugin) ListSnapshots(ctx context.Context, req *message.ClientCSIControllerListSnapshotsRequest,
) (*message.ClientCSIControllerListSnapshotsResponse, error) {
	c := change(controllerService, "ListSnapshots")
	c.hide(req.Secrets, nil)
	out := new(message.ClientCSIControllerListSnapshotsResponse)
	return out, p.do(ctx, c, func(ctx context.Context) error {
		answer, err := p.controller.ListSnapshots(ctx, &spec.ListSnapshotsRequest{MaxEntries: req.MaxEntries,
			StartingToken: req.StartingToken, Secrets: req.Secrets})
		if err != nil {
			return err
		}
		if err := checkPage(len(answer.GetEntries()), answer.GetNextToken()); err != nil {
			return err
		}
		out.NextToken, out.Entries = answer.GetNextToken(), nil
		for _, e := range answer.GetEntries() {
			s := e.GetSnapshot()
			if s == nil {
				continue
			}
			if err := checkSnapshot(s); err != nil {
				return err
			}
			out.Entries = append(out.Entries, &csi.Snapshot{ID: s.GetSnapshotId(), ExternalSourceVolumeID: s.GetSourceVolumeId(),
				SizeBytes: s.GetSizeBytes(), CreateTime: s.GetCreationTime().GetSeconds(), IsReady: s.GetReadyToUse()})
		}
		return nil
	})
}
