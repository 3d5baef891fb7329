package csivolumes

import (
	"context"
	"errors"
	"fmt"

	"github.com/open-nomad/open-nomad/internal/untrusted"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/csisecret"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// maxStatus limits the text of a plugin about the condition of a volume, in bytes.
const maxStatus = 512

// ListExternal returns a page of the volumes of a storage system, registered or not. The plugin chooses the pages.
func (s *Service) ListExternal(ctx context.Context, _ *rpc.Call,
	req *message.CSIVolumeExternalListRequest) (*message.CSIVolumeExternalListResponse, error) {
	p := s.Snapshot().CSIPlugin(nil, req.PluginID)
	switch {
	case p == nil:
		return nil, fmt.Errorf("no such plugin: %s", req.PluginID)
	case !able(p, func(c *nomad.CSIControllerInfo) bool { return c.SupportsListVolumes }):
		return nil, errors.New("unimplemented for this plugin")
	}
	call := &message.ClientCSIControllerListVolumesRequest{MaxEntries: max(req.PerPage, 0), StartingToken: req.NextToken,
		CSIControllerQuery: query(p.ID)}
	var got message.ClientCSIControllerListVolumesResponse
	if err := s.controller(ctx, "ListVolumes", call, &got); err != nil {
		return nil, err
	}
	out := &message.CSIVolumeExternalListResponse{NextToken: got.NextToken}
	for _, v := range got.Entries {
		if v != nil {
			shown := *v
			shown.Status = untrusted.Line(v.Status, maxStatus)
			out.Volumes = append(out.Volumes, &shown)
		}
	}
	out.KnownLeader, out.LastContact = s.Cluster.Contact()
	return out, nil
}

// ListSnapshots returns a page of the snapshots of a storage system. The plugin chooses the pages.
func (s *Service) ListSnapshots(ctx context.Context, _ *rpc.Call,
	req *message.CSISnapshotListRequest) (*message.CSISnapshotListResponse, error) {
	p := s.Snapshot().CSIPlugin(nil, req.PluginID)
	switch {
	case p == nil:
		return nil, fmt.Errorf("no such plugin: %s", req.PluginID)
	case !able(p, func(c *nomad.CSIControllerInfo) bool { return c.SupportsListSnapshots }):
		return nil, errors.New("plugin does not support listing snapshots")
	}
	call := &message.ClientCSIControllerListSnapshotsRequest{MaxEntries: max(req.PerPage, 0), StartingToken: req.NextToken,
		Secrets: req.Secrets, CSIControllerQuery: query(p.ID)}
	var got message.ClientCSIControllerListSnapshotsResponse
	if err := s.controller(ctx, "ListSnapshots", call, &got); err != nil {
		return nil, err
	}
	out := &message.CSISnapshotListResponse{NextToken: got.NextToken}
	for _, snapshot := range got.Entries {
		if snapshot != nil {
			shown := *snapshot
			shown.Secrets = nil
			out.Snapshots = append(out.Snapshots, &shown)
		}
	}
	out.KnownLeader, out.LastContact = s.Cluster.Contact()
	return out, nil
}

// CreateSnapshot creates snapshots of volumes in the namespace of the request. Secrets of the request take precedence over those
// of the volume.
func (s *Service) CreateSnapshot(ctx context.Context, _ *rpc.Call,
	req *message.CSISnapshotCreateRequest) (*message.CSISnapshotCreateResponse, error) {
	if len(req.Snapshots) == 0 {
		return nil, apierror.Errorf(400, "missing snapshot definition")
	}
	out := &message.CSISnapshotCreateResponse{}
	var errs []error
	for _, snapshot := range req.Snapshots {
		made, err := s.snapshot(ctx, handler.NamespaceOf(req.Namespace), snapshot)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out.Snapshots = append(out.Snapshots, made)
	}
	return out, joined(errs)
}

// snapshot creates one snapshot.
func (s *Service) snapshot(ctx context.Context, namespace string, of *csi.Snapshot) (*csi.Snapshot, error) {
	switch {
	case of == nil || of.SourceVolumeID == "":
		return nil, apierror.Errorf(400, "missing source volume ID of the snapshot")
	case of.Name == "":
		return nil, apierror.Errorf(400, "missing name of the snapshot of volume %q", of.SourceVolumeID)
	}
	unlock, err := s.lock(ctx, namespace, of.SourceVolumeID)
	if err != nil {
		return nil, err
	}
	defer unlock()
	ctx = context.WithoutCancel(ctx)
	v, err := s.snapshotSource(namespace, of)
	if err != nil {
		return nil, err
	}
	unlockRemote, err := s.lockRemote(ctx, v)
	if err != nil {
		return nil, err
	}
	defer unlockRemote()
	stored, err := s.cfg.Secrets.Of(ctx, v)
	if err != nil {
		return nil, err
	}
	call := &message.ClientCSIControllerCreateSnapshotRequest{ExternalSourceVolumeID: v.RemoteID(), Name: of.Name,
		Secrets: csisecret.Overlay(stored, of.Secrets), Parameters: of.Parameters, CSIControllerQuery: query(v.PluginID)}
	var got message.ClientCSIControllerCreateSnapshotResponse
	if err := s.controller(ctx, "CreateSnapshot", call, &got); err != nil {
		return nil, fmt.Errorf("could not create snapshot: %w", err)
	}
	rpc.Wrote(ctx)
	switch {
	case got.ID == "":
		return nil, fmt.Errorf("could not create snapshot: plugin %q returned no ID", v.PluginID)
	case got.ExternalSourceVolumeID != "" && got.ExternalSourceVolumeID != v.RemoteID():
		return nil, fmt.Errorf("could not create snapshot: plugin %q returned the snapshot %q of another external volume, %q", v.PluginID, got.ID,
			got.ExternalSourceVolumeID)
	}
	return &csi.Snapshot{ID: got.ID, ExternalSourceVolumeID: v.RemoteID(), SizeBytes: got.SizeBytes, CreateTime: got.CreateTime,
		IsReady: got.IsReady, SourceVolumeID: v.ID, PluginID: v.PluginID, Name: of.Name}, nil
}

// snapshotSource returns the volume of a new snapshot, if its plugin can create it.
func (s *Service) snapshotSource(namespace string, of *csi.Snapshot) (*csi.Volume, error) {
	snap := s.Snapshot()
	v := snap.CSIVolume(nil, namespace, of.SourceVolumeID)
	switch {
	case v == nil:
		return nil, fmt.Errorf("no such volume %q", of.SourceVolumeID)
	case of.PluginID != "" && of.PluginID != v.PluginID: // the plugin would get the secrets of the volume
		return nil, fmt.Errorf("volume %q is of plugin %q, not of %q", v.ID, v.PluginID, of.PluginID)
	}
	return v, snapshotting(snap.CSIPlugin(nil, v.PluginID), v.PluginID)
}

// snapshotting returns an error unless a plugin supports snapshots.
func snapshotting(p *csi.Plugin, id string) error {
	switch {
	case p == nil:
		return fmt.Errorf("no such plugin %q", id)
	case !able(p, func(c *nomad.CSIControllerInfo) bool { return c.SupportsCreateDeleteSnapshot }):
		return fmt.Errorf("plugin %q does not support snapshot", id)
	}
	return nil
}

// DeleteSnapshot deletes snapshots in their storage systems.
func (s *Service) DeleteSnapshot(ctx context.Context, _ *rpc.Call,
	req *message.CSISnapshotDeleteRequest) (*message.CSISnapshotDeleteResponse, error) {
	if len(req.Snapshots) == 0 {
		return nil, apierror.Errorf(400, "missing snapshot ID")
	}
	var errs []error
	for _, snapshot := range req.Snapshots {
		if err := s.deleteSnapshot(ctx, snapshot); err != nil {
			errs = append(errs, err)
		}
	}
	return &message.CSISnapshotDeleteResponse{}, joined(errs)
}

// deleteSnapshot deletes one snapshot.
func (s *Service) deleteSnapshot(ctx context.Context, of *csi.Snapshot) error {
	if of == nil || of.ID == "" || of.PluginID == "" {
		return apierror.Errorf(400, "missing snapshot ID or plugin ID")
	}
	if err := snapshotting(s.Snapshot().CSIPlugin(nil, of.PluginID), of.PluginID); err != nil {
		return err
	}
	unlock, err := s.lock(ctx, "", "snapshot "+of.PluginID+"/"+of.ID)
	if err != nil {
		return err
	}
	defer unlock()
	ctx = context.WithoutCancel(ctx)
	call := &message.ClientCSIControllerDeleteSnapshotRequest{ID: of.ID, Secrets: of.Secrets, CSIControllerQuery: query(of.PluginID)}
	if err := s.controller(ctx, "DeleteSnapshot", call, &message.ClientCSIControllerDeleteSnapshotResponse{}); err != nil {
		return fmt.Errorf("could not delete snapshot %q: %w", of.ID, err)
	}
	rpc.Wrote(ctx)
	return nil
}
