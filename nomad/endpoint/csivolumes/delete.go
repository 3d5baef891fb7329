package csivolumes

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/csisecret"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Delete deletes volumes without claims in their storage systems, and removes their records. Secrets of the request take
// precedence over the stored ones.
func (s *Service) Delete(ctx context.Context, _ *rpc.Call, req *message.CSIVolumeDeleteRequest) (*message.CSIVolumeDeleteResponse, error) {
	ids, err := volumeIDs(req.VolumeIDs)
	if err != nil {
		return nil, err
	}
	out := &message.CSIVolumeDeleteResponse{}
	var errs []error
	for _, id := range ids {
		index, err := s.remove(ctx, handler.NamespaceOf(req.Namespace), id, req.Secrets)
		out.Index = max(out.Index, index)
		if err != nil {
			errs = append(errs, err)
		}
	}
	return out, joined(errs)
}

// volumeIDs returns the distinct IDs of a request, sorted.
func volumeIDs(ids []string) ([]string, error) {
	if len(ids) == 0 || slices.Contains(ids, "") {
		return nil, apierror.Errorf(400, "missing volume ID")
	}
	sorted := slices.Clone(ids)
	slices.Sort(sorted)
	return slices.Compact(sorted), nil
}

// remove deletes a volume.
func (s *Service) remove(ctx context.Context, namespace, id string, secrets csi.Secrets) (uint64, error) {
	unlock, err := s.lock(ctx, namespace, id)
	if err != nil {
		return 0, err
	}
	defer unlock()
	ctx = context.WithoutCancel(ctx)
	// A deposed leader must not delete what a claim of its successor uses.
	if err := s.Cluster.Confirm(ctx); err != nil {
		return 0, err
	}
	snap := s.Snapshot()
	v := snap.CSIVolume(nil, namespace, id)
	if v == nil {
		return 0, fmt.Errorf("%w: %s", csi.ErrVolumeNotFound, id)
	}
	unlockRemote, err := s.lockRemote(ctx, v)
	if err != nil {
		return 0, err
	}
	defer unlockRemote()
	release := s.cfg.Plans.Withhold(csi.Resource(namespace, id)) // no plan places an allocation that would claim it
	defer s.cfg.Blocked.UnblockFailed()
	defer release()
	if err := s.removable(s.Snapshot(), v); err != nil {
		return 0, err
	}
	stored, err := s.cfg.Secrets.Of(ctx, v)
	if err != nil {
		return 0, err
	}
	req := &message.ClientCSIControllerDeleteVolumeRequest{ExternalVolumeID: v.RemoteID(), Secrets: csisecret.Overlay(stored, secrets),
		CSIControllerQuery: query(v.PluginID)}
	if err := s.controller(ctx, "DeleteVolume", req, &message.ClientCSIControllerDeleteVolumeResponse{}); err != nil {
		return 0, err
	}
	rpc.Wrote(ctx)
	index, err := s.deregister(ctx, namespace, []string{id})
	if err != nil {
		return 0, fmt.Errorf("plugin %q deleted the external volume %q, but volume %q is still registered: remove the record with %s: %w",
			v.PluginID, v.RemoteID(), id, command("volume deregister", namespace, id), final(err))
	}
	return index, nil
}

// removable returns an error unless the plugin of a volume can delete it, and nothing uses it. Another record of the same volume of
// the storage system may be in any namespace, so the error does not name it.
func (s *Service) removable(snap *state.Snapshot, v *csi.Volume) error {
	for a := range snap.CSIVolumeUsers(nil, v.Namespace, v.ID) {
		if v.ClaimOf(a.ID) == nil {
			return fmt.Errorf("%w: %s: allocation %s is about to claim it", csi.ErrVolumeInUse, v.ID, a.ID)
		}
	}
	p := snap.CSIPlugin(nil, v.PluginID)
	switch {
	case p == nil:
		return fmt.Errorf("plugin not found: %s", v.PluginID)
	case v.InUse():
		return inUse(snap, v)
	case !able(p, func(c *nomad.CSIControllerInfo) bool { return c.SupportsCreateDelete }):
		return errors.New("plugin does not support deleting volumes")
	}
	for range snap.CSIDuplicates(v) {
		return fmt.Errorf("%w: %s: another volume, maybe of another namespace, is registered with the same external ID %q: remove the other "+
			"record first, or only this one with %s", csi.ErrVolumeInUse, v.ID, v.RemoteID(), command("volume deregister", v.Namespace, v.ID))
	}
	return nil
}

// inUse is the error for a volume with claims. It describes what ends them.
func inUse(snap *state.Snapshot, v *csi.Volume) error {
	why := fmt.Errorf("%w: %s", csi.ErrVolumeInUse, v.ID)
	ended := snap.EndedCSIClaims(v)
	if len(ended) < len(v.ReadClaims)+len(v.WriteClaims) || len(ended) == 0 {
		return why
	}
	return fmt.Errorf("%w: the claims of ended allocations are being released, see %s", why, command("volume status", v.Namespace, v.ID))
}

// Deregister removes the records of volumes. Force also removes volumes with claims of ended allocations, which are not detached.
func (s *Service) Deregister(ctx context.Context, _ *rpc.Call,
	req *message.CSIVolumeDeregisterRequest) (*message.CSIVolumeDeregisterResponse, error) {
	ids, err := volumeIDs(req.VolumeIDs)
	if err != nil {
		return nil, err
	}
	namespace := handler.NamespaceOf(req.Namespace)
	for _, id := range ids { // in the same order everywhere, so that two requests do not wait for each other
		unlock, err := s.lock(ctx, namespace, id)
		if err != nil {
			return nil, err
		}
		defer unlock()
	}
	out := &message.CSIVolumeDeregisterResponse{}
	if req.Force {
		out.Index, err = s.deregisterByForce(ctx, namespace, ids)
	} else {
		out.Index, err = s.deregister(ctx, namespace, ids)
	}
	return out, err
}

// deregister writes the removal of records to the log.
func (s *Service) deregister(ctx context.Context, namespace string, ids []string) (uint64, error) {
	return s.Apply(ctx, message.CSIVolumeDeregisterRequestType, &message.CSIVolumeDeregisterRequest{VolumeIDs: ids,
		WriteRequest: message.WriteRequest{Region: s.Region, Namespace: namespace}})
}

// deregisterByForce is deregister, also with claims of ended allocations.
func (s *Service) deregisterByForce(ctx context.Context, namespace string, ids []string) (uint64, error) {
	return s.Apply(ctx, message.CSIVolumeDeregisterRequestType, &message.CSIVolumeDeregisterRequest{VolumeIDs: ids, Force: true,
		WriteRequest: message.WriteRequest{Region: s.Region, Namespace: namespace}})
}
