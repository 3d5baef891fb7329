// Package mounts mounts the CSI volumes of a node for its allocations, and unmounts them.
package mounts

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// callLimit is the time limit of one call of a plugin.
const callLimit = 2 * time.Minute

// Caller makes RPCs to the servers with the node's token.
type Caller interface {
	Call(ctx context.Context, method string, req, resp any) error
}

// Config configures a Manager.
type Config struct {
	Dir    string // <state dir>/csi
	NodeID string
	Region string
	Calls  Caller
	// Emit records an event of the node. It must not block.
	Emit func(nomad.NodeEvent)
	Log  *slog.Logger
	// CallLimit is the time limit of one call of a plugin. 0 means 2 min.
	CallLimit time.Duration
}

// Manager mounts the volumes of a node. Its methods may be called concurrently.
type Manager struct{ cfg Config }

// New returns a Manager. Restore must be called before its other methods.
func New(cfg Config) *Manager {
	cfg.CallLimit = cmp.Or(cfg.CallLimit, callLimit)
	return &Manager{cfg: cfg}
}

// Use is the use of a volume by an allocation.
type Use struct {
	AllocID        string
	Namespace      string
	VolumeID       string
	ExternalID     string // the ID that the storage system has
	PluginID       string
	ReadOnly       bool
	AccessMode     nomad.VolumeAccessMode
	AttachmentMode nomad.VolumeAttachmentMode
}

// Request is a volume to mount.
type Request struct {
	Use
	Options        *nomad.CSIMountOptions // of the volume, overlaid by those of the job
	PublishContext map[string]string
	VolumeContext  map[string]string
	Secrets        csi.Secrets
}

// Mounted is a mounted volume.
type Mounted struct {
	Path  string // on the host, without links
	Block bool   // it is a block device
}

var errUnmounted = errors.New("the volume is not mounted")

// Restore reads the volumes that an earlier agent has mounted.
func (m *Manager) Restore() error { return nil }

// Leftovers releases the volumes of allocations that the node does not have. Run does the work.
func (m *Manager) Leftovers(has func(alloc string) bool) {}

// Run releases volumes until ctx ends.
func (m *Manager) Run(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// Mount mounts a volume for an allocation, or keeps it as an earlier agent has mounted it.
func (m *Manager) Mount(ctx context.Context, req Request) (Mounted, error) {
	return Mounted{}, errUnmounted
}

// Unmount unmounts a volume of an allocation.
func (m *Manager) Unmount(ctx context.Context, use Use) error { return nil }

// Detach unmounts a volume for the servers.
func (m *Manager) Detach(ctx context.Context, req *message.ClientCSINodeDetachVolumeRequest) error {
	return errUnmounted
}

// Expand expands a mounted volume for the servers, and returns its size in bytes.
func (m *Manager) Expand(ctx context.Context, req *message.ClientCSINodeExpandVolumeRequest) (int64, error) {
	return 0, errUnmounted
}
