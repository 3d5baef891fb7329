package csivolumes

import (
	"context"
	"fmt"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/csisecret"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Reseal encrypts the secrets of a volume with the active root key. They were encrypted with another key, or servers of another
// build stored them in plain text. A volume that does not exist needs nothing.
func (s *Service) Reseal(ctx context.Context, _ *rpc.Call, req *message.CSIVolumeResealRequest) (*message.GenericResponse, error) {
	if req.VolumeID == "" {
		return nil, apierror.Errorf(400, "missing volume ID")
	}
	if err := s.OnlyOurs("the encryption of secrets of CSI volumes"); err != nil {
		return nil, err
	}
	namespace := handler.NamespaceOf(req.Namespace)
	unlock, err := s.lock(ctx, namespace, req.VolumeID)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return handler.Written(s.reseal(ctx, namespace, req.VolumeID))
}

// reseal is Reseal for a locked volume.
func (s *Service) reseal(ctx context.Context, namespace, id string) (uint64, error) {
	snap := s.Snapshot()
	v, key := snap.CSIVolume(nil, namespace, id), snap.ActiveRootKey(nil)
	if v == nil {
		return snap.TableIndex(state.TableCSIVolumes), nil
	}
	if key != nil && csisecret.Current(v, key.KeyID) {
		return v.ModifyIndex, nil
	}
	next := *v
	if err := s.sealAgain(ctx, &next); err != nil {
		return 0, fmt.Errorf("volume %q of namespace %q: %w", id, namespace, err)
	}
	return s.store(ctx, &next)
}

// sealAgain encrypts the secrets of a copy of a stored volume.
func (s *Service) sealAgain(ctx context.Context, next *csi.Volume) error {
	plain, err := s.cfg.Secrets.Of(ctx, next)
	if err != nil {
		return err
	}
	next.Secrets = nil
	next.Sealed, err = s.cfg.Secrets.Seal(ctx, plain)
	return err
}
