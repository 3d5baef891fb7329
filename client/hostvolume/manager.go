package hostvolume

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/internal/sandbox"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rules"
)

// Store keeps the volumes of the node across restarts of the agent.
type Store interface {
	PutHostVolume(v *message.ClientHostVolumeState) error
	DeleteHostVolume(id string) error
	HostVolumes() ([]*message.ClientHostVolumeState, error)
}

// The time limits of the calls of a plugin.
const (
	fingerprintLimit = time.Second
	callLimit        = time.Minute
	// discardLimit is for what a failed create left behind. The caller of Create waits for it.
	discardLimit = 4 * time.Second
)

// Config configures a Manager. All fields are required, except for the limits.
type Config struct {
	VolumesDir string // directory of the volumes that mkdir creates
	PluginDir  string // directory of the external plugins; it may be missing
	NodeID     string
	NodePool   string
	// Private are the directories of the agent of which no part can be registered.
	Private []string
	Store   Store
	// Changed is called after the volumes of the node changed.
	Changed func()
	// Users returns the IDs of the allocations of the node that use the volume with the name and have not ended. It
	// waits until the allocations of an earlier agent are known.
	Users func(ctx context.Context, name string) ([]string, error)
	Log   *slog.Logger
	// FingerprintLimit and CallLimit are the time limits of plugins. 0 means 1 s and 1 min.
	FingerprintLimit, CallLimit time.Duration
}

// Manager holds the dynamic volumes of a node. Its methods may be called concurrently.
type Manager struct {
	cfg Config

	mu      sync.Mutex
	volumes map[string]*nomad.ClientHostVolumeConfig // by name
	busy    map[string]string                        // names and IDs of the volumes of running operations
	closed  map[string]bool                          // names of volumes that are being deleted

	warn sync.Once // about the directory of the volumes
}

// New returns a Manager without volumes. Restore adds those of an earlier agent.
func New(cfg Config) *Manager {
	cfg.FingerprintLimit, cfg.CallLimit = cmp.Or(cfg.FingerprintLimit, fingerprintLimit), cmp.Or(cfg.CallLimit, callLimit)
	return &Manager{cfg: cfg, volumes: map[string]*nomad.ClientHostVolumeConfig{}, busy: map[string]string{}, closed: map[string]bool{}}
}

// Volumes returns the volumes of the node by name. The caller owns the map.
func (m *Manager) Volumes() map[string]*nomad.ClientHostVolumeConfig {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.volumes)
}

// Usable returns the volumes of the node that tasks may mount, by name: those that are not being deleted. The caller owns
// the map.
func (m *Manager) Usable() map[string]*nomad.ClientHostVolumeConfig {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := maps.Clone(m.volumes)
	for name := range m.closed {
		delete(out, name)
	}
	return out
}

// made is what a plugin created.
type made struct {
	path  string
	bytes int64
}

// plugin creates and deletes volumes. Create accepts volumes that exist.
type plugin interface {
	create(ctx context.Context, req *message.ClientHostVolumeCreateRequest) (made, error)
	remove(ctx context.Context, req *message.ClientHostVolumeDeleteRequest) error
}

// plugin returns the plugin with the ID.
func (m *Manager) plugin(id string) (plugin, error) {
	if err := rules.HostVolumePlugin(id); err != nil {
		return nil, err
	}
	if id == MkdirID {
		return mkdir{dir: m.cfg.VolumesDir}, nil
	}
	if err := present(m.cfg.PluginDir, id); err != nil {
		return nil, err
	}
	return &external{id: id, cfg: &m.cfg}, nil
}

// enter reserves a volume for one operation. It refuses a second operation on the volume, and a volume whose name
// belongs to another one.
func (m *Manager) enter(id, name string) (leave func(), err error) {
	if !nomad.IsUUID(id) {
		return nil, apierror.Errorf(400, "volume ID %q is not a UUID", id)
	}
	if name == "" {
		return nil, apierror.Errorf(400, "volume %s has no name", id)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if v := m.volumes[name]; v != nil && v.ID != id {
		return nil, apierror.Errorf(409, "volume name already exists on this node: volume %q has the ID %s and the "+
			"host_path %s; if no server lists it, "+
			"register it with this id and host_path and with its plugin_id, and then delete it", name, v.ID, v.Path)
	}
	if other, running := m.busy[name]; running {
		return nil, apierror.Errorf(409, "another operation on volume %q (%s) of this node is running: try again when it has ended", name, other)
	}
	m.busy[name] = id
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.busy, name)
	}, nil
}

// exists reports whether a request is for a volume that exists: the servers or the state of the node have it. The node
// may not have restored it yet, or its restore may have failed.
func (m *Manager) exists(req *message.ClientHostVolumeCreateRequest) (bool, error) {
	if req.Update {
		return true, nil
	}
	stored, err := m.cfg.Store.HostVolumes()
	if err != nil {
		return false, fmt.Errorf("read the host volumes of the client state: %w", err)
	}
	return slices.ContainsFunc(stored, func(v *message.ClientHostVolumeState) bool { return v.ID == req.ID && !v.Unfinished }), nil
}

// Create creates a volume, or updates one that exists.
func (m *Manager) Create(ctx context.Context, req *message.ClientHostVolumeCreateRequest) (*message.ClientHostVolumeCreateResponse, error) {
	leave, err := m.enter(req.ID, req.Name)
	if err != nil {
		return nil, err
	}
	defer leave()
	p, err := m.plugin(req.PluginID)
	if err != nil {
		return nil, err
	}
	kept := *req
	kept.NodeCall, kept.Update = message.NodeCall{}, false
	rec := &message.ClientHostVolumeState{ID: req.ID, CreateReq: &kept}
	update, err := m.exists(req)
	if err != nil {
		return nil, err
	}
	if !update {
		rec.Unfinished = true
		if err := m.cfg.Store.PutHostVolume(rec); err != nil {
			return nil, fmt.Errorf("store volume %s: %w", req.ID, err)
		}
	}
	got, err := m.call(ctx, p, &kept)
	if err != nil {
		if !update {
			err = errors.Join(err, m.discard(rec, p))
		}
		return nil, err
	}
	done := *rec
	done.Unfinished = false
	if err := m.cfg.Store.PutHostVolume(&done); err != nil {
		return nil, fmt.Errorf("store volume %s: %w", req.ID, err)
	}
	m.cfg.Log.Info("created host volume", "volume", req.ID, "name", req.Name, "plugin", req.PluginID, "path", got.path)
	m.add(req.ID, req.Name, got.path)
	return &message.ClientHostVolumeCreateResponse{VolumeName: req.Name, VolumeID: req.ID, HostPath: got.path, CapacityBytes: got.bytes}, nil
}

// call calls a plugin to create a volume, and resolves the links in its path. Links that a task can have created are
// refused, now and later.
func (m *Manager) call(ctx context.Context, p plugin, req *message.ClientHostVolumeCreateRequest) (made, error) {
	got, err := p.create(ctx, req)
	m.keepPrivate() // a plugin may have made the directory
	if err == nil {
		got.path, err = resolved(got.path)
	}
	var coded *apierror.Coded
	switch {
	case errors.As(err, &coded):
		return made{}, apierror.Errorf(coded.Code, "create volume %q (%s) with plugin %q: %s", req.Name, req.ID, req.PluginID, coded.Message)
	case err != nil:
		return made{}, fmt.Errorf("create volume %q (%s) with plugin %q: %w", req.Name, req.ID, req.PluginID, err)
	}
	return got, nil
}

func resolved(path string) (string, error) {
	if err := rules.HostPath(path); err != nil {
		return "", err
	}
	real, _, err := sandbox.RealPath(path)
	if err != nil {
		return "", &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return real, nil
}

// discard removes what a failed create left behind, and its record. If the plugin fails, the record stays, so that the
// next start of the agent tries again.
func (m *Manager) discard(rec *message.ClientHostVolumeState, p plugin) error {
	ctx, cancel := context.WithTimeout(context.Background(), min(discardLimit, m.cfg.CallLimit))
	defer cancel()
	req := rec.CreateReq
	if err := p.remove(ctx, deletion(req, rec.HostPath)); err != nil {
		return fmt.Errorf("remove the unfinished volume %q (%s) with plugin %q: %w", req.Name, req.ID, req.PluginID, err)
	}
	return m.cfg.Store.DeleteHostVolume(rec.ID)
}

// deletion returns the request that deletes what req created.
func deletion(req *message.ClientHostVolumeCreateRequest, path string) *message.ClientHostVolumeDeleteRequest {
	return &message.ClientHostVolumeDeleteRequest{ID: req.ID, Name: req.Name, PluginID: req.PluginID, Namespace: req.Namespace,
		NodeID: req.NodeID, HostPath: path, Parameters: req.Parameters}
}

// Register adds an existing directory or device as a volume.
func (m *Manager) Register(req *message.ClientHostVolumeRegisterRequest) error {
	leave, err := m.enter(req.ID, req.Name)
	if err != nil {
		return err
	}
	defer leave()
	path, err := m.registrable(req.HostPath, req.ID)
	if err != nil {
		return apierror.Errorf(400, "cannot register volume %q: host_path of node %s: %v", req.Name, m.cfg.NodeID, err)
	}
	rec := &message.ClientHostVolumeState{ID: req.ID, HostPath: req.HostPath, RealPath: path,
		CreateReq: &message.ClientHostVolumeCreateRequest{
			ID: req.ID, Name: req.Name, NodeID: req.NodeID, Parameters: req.Parameters}}
	if err := m.cfg.Store.PutHostVolume(rec); err != nil {
		return fmt.Errorf("store volume %s: %w", req.ID, err)
	}
	m.cfg.Log.Info("registered host volume", "volume", req.ID, "name", req.Name, "path", path)
	m.add(req.ID, req.Name, path)
	return nil
}

// vacate makes a volume unusable until open is called, and returns an error if an allocation uses it. An allocation that
// is added later does not find the volume when it starts.
func (m *Manager) vacate(ctx context.Context, id, name string) (open func(), err error) {
	m.mu.Lock()
	m.closed[name] = true
	m.mu.Unlock()
	open = func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.closed, name)
	}
	users, err := m.cfg.Users(ctx, name)
	if err == nil && len(users) > 0 {
		err = apierror.Errorf(409, "volume %q (%s) of this node is in use by allocations: %v: try again when they have ended", name, id, users)
	}
	if err != nil {
		open()
		return nil, err
	}
	return open, nil
}

// Delete deletes a volume that no allocation of the node uses. Without a plugin, its directory remains. The servers may
// count an allocation as lost that still runs here.
func (m *Manager) Delete(ctx context.Context, req *message.ClientHostVolumeDeleteRequest) error {
	leave, err := m.enter(req.ID, req.Name)
	if err != nil {
		return err
	}
	defer leave()
	open, err := m.vacate(ctx, req.ID, req.Name)
	if err != nil {
		return err
	}
	defer open()
	if req.PluginID != "" {
		p, err := m.plugin(req.PluginID)
		if err == nil {
			err = p.remove(ctx, req)
		}
		if err != nil {
			return fmt.Errorf("delete volume %q (%s) with plugin %q: %w", req.Name, req.ID, req.PluginID, err)
		}
	}
	if err := m.cfg.Store.DeleteHostVolume(req.ID); err != nil {
		return fmt.Errorf("remove volume %s from the client state: %w", req.ID, err)
	}
	m.cfg.Log.Info("deleted host volume", "volume", req.ID, "name", req.Name, "plugin", req.PluginID)
	m.drop(req.Name)
	return nil
}

// add makes a volume one of the node's.
func (m *Manager) add(id, name, path string) {
	m.mu.Lock()
	m.volumes[name] = &nomad.ClientHostVolumeConfig{Name: name, ID: id, Path: path}
	m.mu.Unlock()
	m.cfg.Changed()
}

func (m *Manager) drop(name string) {
	m.mu.Lock()
	delete(m.volumes, name)
	m.mu.Unlock()
	m.cfg.Changed()
}
