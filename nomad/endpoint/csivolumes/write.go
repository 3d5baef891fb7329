package csivolumes

import (
	"context"
	"errors"
	"fmt"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/rules"
)

// Register registers volumes that exist in their storage systems, or updates registered ones. Of several volumes, those
// without an error are registered.
func (s *Service) Register(ctx context.Context, c *rpc.Call,
	req *message.CSIVolumeRegisterRequest) (*message.CSIVolumeRegisterResponse, error) {
	out := &message.CSIVolumeRegisterResponse{}
	var err error
	out.Volumes, out.Index, err = s.writeAll(ctx, c, request{req.Volumes, req.Namespace, req.PolicyOverride}, s.register)
	return out, err
}

// Create creates volumes in their storage systems and registers them, or updates registered ones. See Register.
func (s *Service) Create(ctx context.Context, c *rpc.Call, req *message.CSIVolumeCreateRequest) (*message.CSIVolumeCreateResponse, error) {
	out := &message.CSIVolumeCreateResponse{}
	var err error
	out.Volumes, out.Index, err = s.writeAll(ctx, c, request{req.Volumes, req.Namespace, req.PolicyOverride}, s.create)
	return out, err
}

// writeAll admits the volumes of a request and calls write for each, with its lock. It returns the stored volumes and the index
// of the last log entry.
func (s *Service) writeAll(ctx context.Context, c *rpc.Call, r request,
	write func(context.Context, *csi.Volume) (uint64, error)) (stored []*csi.Volume, index uint64, err error) {
	all, err := admit(c, r)
	if err != nil {
		return nil, 0, err
	}
	var errs []error
	for _, v := range all {
		at, err := s.locked(ctx, v, write)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		index = max(index, at)
		if now := s.Snapshot().CSIVolume(nil, v.Namespace, v.ID); now != nil {
			stored = append(stored, replied(now))
		}
	}
	return stored, index, joined(errs)
}

// locked checks a volume and writes it with its lock. The end of the request does not interrupt the operation.
func (s *Service) locked(ctx context.Context, v *csi.Volume, write func(context.Context, *csi.Volume) (uint64, error)) (uint64, error) {
	if err := s.check(v); err != nil {
		return 0, err
	}
	unlock, err := s.lock(ctx, v.Namespace, v.ID)
	if err != nil {
		return 0, err
	}
	defer unlock()
	return write(context.WithoutCancel(ctx), v)
}

// register registers or updates a volume.
func (s *Service) register(ctx context.Context, v *csi.Volume) (uint64, error) {
	snap := s.Snapshot()
	p, err := usable(snap, v)
	if err != nil {
		return 0, err
	}
	if old := snap.CSIVolume(nil, v.Namespace, v.ID); old != nil {
		index, err := s.update(ctx, change{old: old, requested: v, plugin: p, validate: s.validate})
		if err != nil {
			return 0, fmt.Errorf("unable to update volume: %w", err)
		}
		return index, nil
	}
	if err := rules.NewCSIVolume(v); err != nil {
		return 0, err
	}
	if r := v.RequestedTopologies; len(v.Topologies) == 0 && r != nil {
		v.Topologies = r.Required
	}
	v.Provider, v.ProviderVersion = p.Provider, p.Version
	unlock, err := s.lockRemote(ctx, v)
	if err != nil {
		return 0, err
	}
	defer unlock()
	if err := s.validate(ctx, p, v, v.Secrets); err != nil {
		return 0, err
	}
	return s.seal(ctx, v)
}

// validate asks the controller whether a volume exists and has the requested capabilities.
func (s *Service) validate(ctx context.Context, p *csi.Plugin, v *csi.Volume, secrets csi.Secrets) error {
	if !p.ControllerRequired {
		return nil
	}
	req := &message.ClientCSIControllerValidateVolumeRequest{VolumeID: v.RemoteID(), VolumeCapabilities: v.RequestedCapabilities,
		MountOptions: v.MountOptions, Secrets: secrets, Parameters: v.Parameters, Context: v.Context, CSIControllerQuery: query(p.ID)}
	return s.controller(ctx, "ValidateVolume", req, &message.ClientCSIControllerValidateVolumeResponse{})
}

func query(plugin string) message.CSIControllerQuery {
	return message.CSIControllerQuery{PluginID: plugin}
}

// create creates a volume, or updates a registered one.
func (s *Service) create(ctx context.Context, v *csi.Volume) (uint64, error) {
	snap := s.Snapshot()
	p, err := usable(snap, v)
	if err != nil {
		return 0, err
	}
	switch old := snap.CSIVolume(nil, v.Namespace, v.ID); {
	case old != nil:
		return s.update(ctx, change{old: old, requested: v, plugin: p})
	case !p.ControllerRequired:
		return 0, noController(p)
	case !able(p, func(c *nomad.CSIControllerInfo) bool { return c.SupportsCreateDelete }):
		return 0, errors.New("plugin does not support creating volumes")
	case v.Name == "":
		return 0, fmt.Errorf("volume %s: missing Name: the storage system needs it to create the volume", v.ID)
	}
	if err := rules.NewCSIVolume(v); err != nil {
		return 0, err
	}
	got, err := s.createExternal(ctx, v)
	if err != nil {
		return 0, err
	}
	v.ExternalID, v.Capacity, v.Context, v.Topologies = got.ExternalVolumeID, got.CapacityBytes, got.VolumeContext, segmented(got.Topologies)
	v.Provider, v.ProviderVersion = p.Provider, p.Version
	if err := cleanAnswer(v); err != nil {
		return 0, fmt.Errorf("controller create volume: plugin %q created volume %q: %w", p.ID, v.Name, err)
	}
	return s.storeCreated(ctx, v)
}

// noController is the error about a plugin that reports no controller. A plugin without instances does not report what it has.
func noController(p *csi.Plugin) error {
	if p.NodesHealthy+p.ControllersHealthy == 0 {
		return fmt.Errorf("no instance of CSI plugin %q is healthy: run its job, or see why it fails with 'nomad plugin status %s'", p.ID, p.ID)
	}
	return errors.New("plugin has no controller")
}

// createExternal creates a volume in the storage system.
func (s *Service) createExternal(ctx context.Context, v *csi.Volume) (*message.ClientCSIControllerCreateVolumeResponse, error) {
	req := &message.ClientCSIControllerCreateVolumeRequest{Name: v.Name, VolumeCapabilities: v.RequestedCapabilities,
		MountOptions: v.MountOptions, Parameters: v.Parameters, Secrets: v.Secrets, CapacityMin: v.RequestedCapacityMin,
		CapacityMax: v.RequestedCapacityMax, SnapshotID: v.SnapshotID, CloneID: v.CloneID, RequestedTopologies: v.RequestedTopologies,
		CSIControllerQuery: query(v.PluginID)}
	out := &message.ClientCSIControllerCreateVolumeResponse{}
	if err := s.controller(ctx, "CreateVolume", req, out); err != nil {
		return nil, err
	}
	rpc.Wrote(ctx)
	return out, nil
}

// cleanAnswer returns an error if what a plugin has returned for a volume cannot be stored.
func cleanAnswer(v *csi.Volume) error {
	switch {
	case v.ExternalID == "":
		return errors.New("it returned no ID of the volume")
	case v.Capacity < 0:
		return fmt.Errorf("it returned the capacity %d", v.Capacity)
	}
	return errors.Join(rules.CSIExternalID(v.ExternalID), rules.CSIContext(v))
}

// storeCreated registers a volume that its plugin has created, unless the plugin returned one that is registered already. Two
// requests with the same name get the same volume: the lock of its external ID lets only one register it.
func (s *Service) storeCreated(ctx context.Context, v *csi.Volume) (uint64, error) {
	unlock, err := s.lockRemote(ctx, v)
	if err != nil {
		return 0, unregistered(v, err)
	}
	defer unlock()
	for range s.Snapshot().CSIDuplicates(v) {
		return 0, fmt.Errorf("controller create volume: plugin %q returned the external volume %q for the name %q, which is registered as "+
			"another volume: use another name", v.PluginID, v.ExternalID, v.Name)
	}
	index, err := s.seal(ctx, v)
	if err != nil {
		return 0, unregistered(v, err)
	}
	return index, nil
}

// unregistered is the error about a volume that exists in its storage system only.
func unregistered(v *csi.Volume, err error) error {
	return fmt.Errorf("plugin %q created the external volume %q, but volume %q is not registered: repeat the command, or register it with "+
		"'nomad volume register' and external_id = %q, after which 'nomad volume delete' deletes it: %w", v.PluginID, v.ExternalID, v.ID,
		v.ExternalID, final(err))
}

// seal encrypts the secrets of a requested volume and writes the volume to the log.
func (s *Service) seal(ctx context.Context, v *csi.Volume) (uint64, error) {
	sealed, err := s.cfg.Secrets.Seal(ctx, v.Secrets)
	if err != nil {
		return 0, err
	}
	v.Secrets, v.Sealed = nil, sealed
	return s.store(ctx, v)
}

// store writes a volume to the log.
func (s *Service) store(ctx context.Context, v *csi.Volume) (uint64, error) {
	entry := &message.CSIVolumeRegisterRequest{Volumes: []*csi.Volume{v.Unclaimed()}, Timestamp: s.UnixNow(),
		WriteRequest: message.WriteRequest{Region: s.Region, Namespace: v.Namespace}}
	return s.Apply(ctx, message.CSIVolumeRegisterRequestType, entry)
}

// replied returns a stored volume for a reply: without secrets and without claims.
func replied(v *csi.Volume) *csi.Volume {
	out := v.Redacted()
	out.ReadClaims, out.WriteClaims, out.PastClaims = nil, nil, nil
	return out
}
