package mounts

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/internal/wake"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// The times of Config. patience is shorter than the time after which servers free the claims of a plugin that is gone
// (claims.DefaultGoneAfter): by then the node has unmounted the volume itself.
const (
	patience = 4 * time.Minute
	retryMin = time.Second
	retryMax = time.Minute
)

// Store keeps the uses of volumes across restarts of the agent (state.DB).
type Store interface {
	PutCSIMount(m *state.CSIMount) error
	DeleteCSIMount(key string) error
	CSIMounts() ([]*state.CSIMount, error)
}

// Config configures a Manager. All fields are required, except for the times.
type Config struct {
	Dir     string // <state dir>/csi
	NodeID  string
	Boot    string // the ID of this boot of the machine
	Plugins Plugins
	Store   Store
	Calls   message.Caller // with the node's token
	// Emit records an event of the node. It must not block.
	Emit func(nomad.NodeEvent)
	Log  *slog.Logger

	Patience           time.Duration // with a plugin that is not registered; 0 means 4 min
	RetryMin, RetryMax time.Duration // delays between attempts to unmount; 0 means 1 s and 1 min
}

// Manager mounts the volumes of a node. Its methods may be called concurrently.
type Manager struct {
	cfg    Config
	queues queues
	wake   wake.Signal   // a use must be released
	over   chan struct{} // closed when Run has returned

	// tree is held while directories are made, or removed because they are empty or of no use: for a few system calls, none of
	// which reaches the file system of a volume, whose server may not answer.
	tree sync.Mutex

	mu      sync.Mutex
	uses    map[string]*state.CSIMount // by key; an entry is replaced, never changed
	waits   map[string]string          // why a use is not released yet, by key
	changed wake.Broadcast             // of uses
}

// New returns a Manager without volumes. Restore adds those of an earlier agent.
func New(cfg Config) *Manager {
	cfg.Patience = cmp.Or(cfg.Patience, patience)
	cfg.RetryMin, cfg.RetryMax = cmp.Or(cfg.RetryMin, retryMin), cmp.Or(cfg.RetryMax, retryMax)
	return &Manager{cfg: cfg, wake: wake.New(), over: make(chan struct{}), uses: map[string]*state.CSIMount{}, waits: map[string]string{}}
}

// Boot returns the ID of this boot of the machine.
func Boot() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "" // then only the mounts themselves show whether they remain
	}
	return strings.TrimSpace(string(text))
}

// Use is the use of a volume by an allocation.
type Use struct {
	AllocID        string
	Namespace      string
	VolumeID       string
	ReadOnly       bool
	AccessMode     nomad.VolumeAccessMode
	AttachmentMode nomad.VolumeAttachmentMode
}

// UseOf returns the use of a volume that the group of an allocation requests.
func UseOf(a *nomad.Allocation, v *nomad.VolumeRequest) Use {
	return Use{AllocID: a.ID, Namespace: a.Namespace, VolumeID: v.SourceFor(a.Name), ReadOnly: v.ReadOnly, AccessMode: v.AccessMode,
		AttachmentMode: v.AttachmentMode}
}

// record returns a new record of the use.
func (u Use) record() *state.CSIMount {
	return &state.CSIMount{AllocID: u.AllocID, Namespace: u.Namespace, VolumeID: u.VolumeID, ReadOnly: u.ReadOnly,
		AccessMode: u.AccessMode, AttachmentMode: u.AttachmentMode}
}

// block reports whether the use is of a block device.
func (u Use) block() bool { return u.AttachmentMode == nomad.VolumeAttachBlockDevice }

// useOf returns the use of a record.
func useOf(r *state.CSIMount) Use {
	return Use{AllocID: r.AllocID, Namespace: r.Namespace, VolumeID: r.VolumeID, ReadOnly: r.ReadOnly, AccessMode: r.AccessMode,
		AttachmentMode: r.AttachmentMode}
}

// Request is a volume to mount.
type Request struct {
	Use
	PluginID       string
	ExternalID     string                 // the ID that the storage system has
	Options        *nomad.CSIMountOptions // of the volume, overlaid by those of the job
	PublishContext map[string]string
	VolumeContext  map[string]string
	Secrets        csi.Secrets
	Propagates     bool // mounts below the volume, made later, are those of the plugin and the tasks together
}

// Mounted is a mounted volume.
type Mounted struct {
	Path   string // on the host, without links; only root can change it
	Device bool   // it is the node of a block device
	Reads  string // the path of the node that cannot be opened for writing
}

// Begin records that the servers may soon have a claim for the use, so that it is released when the allocation ends. If the
// volume of the use is being released, Begin waits for that.
func (m *Manager) Begin(ctx context.Context, u Use) error {
	key := u.record().Key()
	if err := m.await(ctx, func(r *state.CSIMount) bool { return r.Key() == key && !live(r.State) }); err != nil {
		return err
	}
	_, err := m.move(key, evClaim, func(r *state.CSIMount) {
		if r.State == none {
			*r = *u.record()
		}
	})
	return err
}

// use returns the record with a key, or nil. It must not be modified.
func (m *Manager) use(key string) *state.CSIMount {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.uses[key]
}

// list returns the records, sorted by key.
func (m *Manager) list() []*state.CSIMount {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]*state.CSIMount, 0, len(m.uses))
	for _, key := range slices.Sorted(maps.Keys(m.uses)) {
		out = append(out, m.uses[key])
	}
	return out
}

// move applies an event to a use, and stores its record with the changes of edit. The moves of a use follow each other: End does
// not wait for a call for the volume.
func (m *Manager) move(key string, by event, edit func(*state.CSIMount)) (*state.CSIMount, error) {
	leave, err := m.queues.enter(context.Background(), "move/"+key)
	if err != nil {
		return nil, err
	}
	defer leave()
	r := &state.CSIMount{}
	if old := m.use(key); old != nil {
		*r = *old
	}
	to, err := next(r.State, by)
	if err != nil {
		return nil, err
	}
	if edit != nil {
		edit(r)
	}
	r.State = to
	if to == none {
		err = m.cfg.Store.DeleteCSIMount(key)
	} else {
		err = m.cfg.Store.PutCSIMount(r)
	}
	if err != nil {
		return nil, fmt.Errorf("store the state of volume %q of allocation %s: %w", r.VolumeID, r.AllocID, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.uses[key] = r
	if to == none {
		delete(m.uses, key)
		delete(m.waits, key)
	}
	m.changed.Send()
	return r, nil
}
