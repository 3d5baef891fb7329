package mounts

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	clientcsi "github.com/open-nomad/open-nomad/client/csi"
	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
)

// Mount mounts a volume for an allocation. After an error, or the end of ctx, the plugin may still have mounted it: Release
// undoes that. After the end of ctx, it does not wait for a file system that does not answer: the volume's queue stays taken until
// it does.
func (m *Manager) Mount(ctx context.Context, req Request) (Mounted, error) {
	var got Mounted
	err := safefs.Await(ctx, func() (err error) {
		got, err = m.mountInTurn(ctx, req)
		return err
	})
	if err != nil {
		return Mounted{}, err
	}
	return got, nil
}

// mountInTurn is Mount, in the queue of the volume.
func (m *Manager) mountInTurn(ctx context.Context, req Request) (Mounted, error) {
	leave, err := m.queues.enter(ctx, queuesOf(req.Namespace, req.VolumeID, req.PluginID, req.ExternalID)...)
	if err != nil {
		return Mounted{}, fmt.Errorf("mount volume %q: wait for another call for the volume: %w", req.VolumeID, err)
	}
	defer leave()
	if got, ok, err := m.Mounted(req.Use); err != nil || ok {
		return got, err
	}
	err = m.mount(ctx, &req)
	m.report("Mount volume", req.VolumeID, err)
	if err != nil {
		return Mounted{}, fmt.Errorf("mount volume %q: %w", req.VolumeID, err)
	}
	m.cfg.Log.Info("mounted CSI volume", "alloc", req.AllocID, "volume", req.VolumeID, "plugin", req.PluginID)
	got, ok, err := m.Mounted(req.Use)
	if err == nil && !ok {
		err = fmt.Errorf("mount volume %q: it was unmounted at once", req.VolumeID)
	}
	return got, err
}

// queuesOf returns the queues of the calls for a volume. A volume of the storage system may have several IDs.
func queuesOf(namespace, volume, plugin, external string) []string {
	return []string{"volume/" + namespace + "/" + volume, "plugin/" + plugin + "/" + external}
}

func (m *Manager) mount(ctx context.Context, req *Request) error {
	plugin, inst, err := m.cfg.Plugins.Await(ctx, req.PluginID)
	if err != nil {
		return err
	}
	if err := Share(m.cfg.Dir); err != nil {
		return err
	}
	r, err := m.intend(req, inst)
	if err != nil {
		return err
	}
	call := &clientcsi.NodeRequest{VolumeID: req.ExternalID, Target: r.TaskRoot + "/" + r.Target, ReadOnly: req.ReadOnly, Options: req.Options,
		Capability:     csi.Capability{AttachmentMode: req.AttachmentMode, AccessMode: req.AccessMode},
		PublishContext: req.PublishContext, VolumeContext: req.VolumeContext, Secrets: req.Secrets}
	if r.Staging != "" {
		call.Staging = r.TaskRoot + "/" + r.Staging
		if err := m.stage(ctx, plugin, r, call); err != nil {
			return err
		}
	}
	parent, err := m.parent(r.Root, r.Target, makeAll)
	if err != nil {
		return fmt.Errorf("create the directory of the published volume: %w", err)
	}
	defer parent.Close() //nolint:errcheck // a directory
	if err := plugin.NodePublish(ctx, call); err != nil {
		return err
	}
	device, err := m.bind(r, inst, req.propagation())
	if err != nil {
		return err
	}
	_, err = m.move(r.Key(), evPublish, func(r *state.CSIMount) { r.Device = device })
	return err
}

// propagation returns the propagation of the mount for the tasks. Without a task that wants the mounts of others, nobody can
// mount anything over the volume after the check.
func (r *Request) propagation() uint64 {
	if r.Propagates {
		return 0 // that of the plugin's mount
	}
	return unix.MS_PRIVATE
}

// intend records the paths of a volume before the plugin is called. A record of an earlier attempt keeps its paths, below
// which something may be mounted, unless the plugin now has another directory.
func (m *Manager) intend(req *Request, inst Instance) (*state.CSIMount, error) {
	old := m.use(req.record().Key())
	if old == nil {
		return nil, errors.New("its use was not recorded before")
	}
	if old.Root != "" && (old.Root != inst.Root || old.ExternalID != req.ExternalID || old.PluginID != req.PluginID) {
		if err := m.discard(old); err != nil {
			return nil, fmt.Errorf("unmount the volume of the same allocation, as an earlier plugin has mounted it: %w", err)
		}
	}
	staging := ""
	if inst.Stages {
		staging = req.staging()
	}
	if err := m.stageable(req, inst.Root, staging); err != nil {
		return nil, err
	}
	r, err := m.move(req.record().Key(), evMount, func(r *state.CSIMount) {
		r.PluginID, r.ExternalID, r.Options, r.Boot = req.PluginID, req.ExternalID, digest(req.Options), m.cfg.Boot
		r.Root, r.TaskRoot, r.Staging, r.Target, r.Device = inst.Root, inst.TaskRoot, staging, req.target(), 0
	})
	m.awaitSweep()
	return r, err
}

// awaitSweep waits until a sweep is over that has not seen the newest record.
func (m *Manager) awaitSweep() {
	m.tree.Lock()
	defer m.tree.Unlock()
}

// stageable returns an error if another volume is staged at the path, or the volume with other options. All users of a path
// have what the first has staged, without noexec for example.
func (m *Manager) stageable(req *Request, root, staging string) error {
	if staging == "" {
		return nil
	}
	for _, other := range m.stagedAt(root, staging) {
		switch {
		case other.Key() == req.record().Key():
		case other.ExternalID != req.ExternalID || other.PluginID != req.PluginID:
			return fmt.Errorf("allocation %s still uses the volume %q that had this ID before: try again when it has ended", other.AllocID,
				other.ExternalID)
		case other.Options != digest(req.Options):
			return fmt.Errorf("allocation %s uses the volume on this node with other mount_options: use the same, or try again when it has ended",
				other.AllocID)
		}
	}
	return nil
}

// stagedAt returns the uses of a staging path.
func (m *Manager) stagedAt(root, staging string) (out []*state.CSIMount) {
	for _, r := range m.list() {
		if r.Root == root && r.Staging == staging && r.State != detached && r.State != claimed {
			out = append(out, r)
		}
	}
	return out
}

// stage stages the volume, unless it is staged for another allocation. What a killed agent has begun is repeated.
func (m *Manager) stage(ctx context.Context, plugin Plugin, r *state.CSIMount, call *clientcsi.NodeRequest) error {
	for _, other := range m.stagedAt(r.Root, r.Staging) {
		if other.State == mounted && other.Boot == m.cfg.Boot {
			return nil
		}
	}
	if err := m.makeStaging(r); err != nil {
		return err
	}
	return plugin.NodeStage(ctx, call)
}

// report emits the event of an operation.
func (m *Manager) report(what, volume string, err error) {
	e := nomad.NodeEvent{Message: what, Subsystem: nomad.NodeEventSubsystemStorage, Timestamp: time.Now(),
		Details: map[string]string{"volume_id": volume, "success": "true"}}
	if err != nil {
		e.Details["success"], e.Details["error"] = "false", err.Error()
	}
	m.cfg.Emit(e)
}
