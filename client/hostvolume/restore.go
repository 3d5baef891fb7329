package hostvolume

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/open-nomad/open-nomad/nomad/message"
)

// parallel limits how many plugins run at a time.
const parallel = 4

// Restore creates the volumes of an earlier agent again and removes those whose creation did not finish. A volume that
// cannot be created is not one of the node's until the next start. The error lists these. Restore also takes the
// directory of the volumes from other users of the node.
func (m *Manager) Restore(ctx context.Context) error {
	list, err := m.cfg.Store.HostVolumes()
	if err != nil {
		return fmt.Errorf("read the host volumes of the client state: %w", err)
	}
	m.keepPrivate()
	var group errgroup.Group
	group.SetLimit(parallel)
	errs := make([]error, len(list))
	for i, rec := range list {
		group.Go(func() error {
			errs[i] = m.restore(ctx, rec)
			return nil
		})
	}
	group.Wait() // the functions return no errors
	return errors.Join(errs...)
}

func (m *Manager) restore(ctx context.Context, rec *message.ClientHostVolumeState) error {
	req := rec.CreateReq
	if req == nil {
		return fmt.Errorf("host volume %s of the client state has no request to create it", rec.ID)
	}
	leave, err := m.enter(req.ID, req.Name)
	if err != nil {
		return err
	}
	defer leave()
	if rec.HostPath != "" {
		path, err := m.registrable(rec.HostPath, req.ID)
		if err == nil && rec.RealPath != "" && path != rec.RealPath {
			err = fmt.Errorf("host_path %s led to %s when it was registered, and now leads to %s: restore the link, or register the volume again",
				rec.HostPath, rec.RealPath, path)
		}
		if err != nil {
			return fmt.Errorf("restore registered volume %q (%s): %w", req.Name, req.ID, err)
		}
		m.add(req.ID, req.Name, path)
		return nil
	}
	p, err := m.plugin(req.PluginID)
	if err != nil {
		return fmt.Errorf("restore volume %q (%s): %w", req.Name, req.ID, err)
	}
	if rec.Unfinished {
		return m.abandon(ctx, rec, p)
	}
	got, err := m.call(ctx, p, req)
	if err != nil {
		return err
	}
	m.add(req.ID, req.Name, got.path)
	return nil
}

// abandon deletes a volume whose creation an earlier agent did not finish. The plugin first creates it again, because
// only it knows the path.
func (m *Manager) abandon(ctx context.Context, rec *message.ClientHostVolumeState, p plugin) error {
	again := *rec
	if got, err := m.call(ctx, p, rec.CreateReq); err == nil {
		again.HostPath = got.path
	}
	m.cfg.Log.Warn("removing a host volume whose creation was interrupted", "volume", rec.ID, "name", rec.CreateReq.Name)
	return m.discard(&again, p)
}
