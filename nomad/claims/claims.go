// Package claims releases the claims of ended allocations on CSI volumes.
//
// A claim takes these steps. Each is done only after the log has the one before it, and may be done twice: a new leader, or a
// second server, repeats the step that was in progress.
//
//	taken ──end──▶ unpublishing ──node-detach──▶ node-detached ──controller-detach──▶ ready-to-free
//	controller-detached ──controller-detach──▶ ready-to-free                            (of leaders of Nomad 2.0)
//
//	end                the allocation has ended on its client, or does not exist. An allocation that may run keeps its claim:
//	                   one that is unknown, because its node is disconnected, and one that is only to be stopped.
//	node-detach        The node unmounts the volume of the allocation (CSI.NodeDetachVolume). This step is skipped if the node
//	                   is down or does not exist, and for the claims of old servers without modes, whose nodes do it.
//	controller-detach  The controller plugin detaches the volume from the node (CSI.ControllerDetachVolume). This step is
//	                   skipped if the plugin needs no controller or cannot attach, and if another claim needs the
//	                   attachment: one of the same node that is not detached from the node yet. That one does it later. It may
//	                   be a claim on another record of the same volume of the storage system.
//	ready-to-free      The claim is removed from the volume by the same log entry. Evaluations that wait for it are retried.
//
// What a step can wait for, as it is stored in Claim.Waits, and what ends the wait:
//
//	the node is not connected to a server        it connects, or it is down: heartbeats decide that
//	a node that is down stops the allocation       stop_on_client_after and the time to stop have passed
//	the plugin does not run on the node          its job runs there again; or the node is down
//	the controller has no healthy instance       its job runs again
//	a plugin returns an error, or does not answer  it succeeds: the step is repeated
//	the secrets of the volume cannot be opened   the root key is available
//	the plugin does not exist any more           it is registered again; or GoneAfter has passed, and the step is skipped
//
// A claim is never freed while its volume is known to be mounted: writes of the node could otherwise meet those of the next
// allocation. "nomad volume deregister -force" ends every wait, because the claims end with the record of the volume.
//
// A failed step is repeated after a delay of 1 s to 1 min, or a second after something has changed that it depends on. It
// delays no other volume: an attempt that takes long does not count for the limit of attempts at once, and each claim has its
// own delay. A volume has one attempt at a time. During the controller step it holds the lock of the volume in package csicall,
// so that the volume is not attached for the next claim meanwhile.
//
// The Watcher runs on the leader only, and keeps nothing but delays in memory: state has all claims. One goroutine, Run, waits
// for changes of volumes, allocations, nodes and plugins. Each attempt has a goroutine of its own. The package places nothing,
// mounts nothing, and takes no claims: the handler of CSIVolume.Claim does.
package claims

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/internal/wake"
	"github.com/open-nomad/open-nomad/nomad/consensus"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/csicall"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Plugins calls the plugins. csicall.Caller implements it.
type Plugins interface {
	Controller(ctx context.Context, method string, req csicall.ControllerRequest, resp any) error
	Node(ctx context.Context, node, method string, req rpc.ServerCall, resp any) error
	Lock(ctx context.Context, namespace, volume string) (unlock func(), err error)
}

// Secrets opens the secrets of a volume. csisecret.Sealer implements it.
type Secrets interface {
	Of(ctx context.Context, v *csi.Volume) (csi.Secrets, error)
}

// DefaultGoneAfter is the default of Config.GoneAfter.
const DefaultGoneAfter = 5 * time.Minute

// Config of a Watcher.
type Config struct {
	Store   func() *state.Store // the current store: a restore replaces it
	Raft    consensus.Log
	Plugins Plugins
	Secrets Secrets
	// GoneAfter is how long a plugin must not exist until claims on its volumes are freed without it. Default 5 min.
	GoneAfter time.Duration
	Log       *slog.Logger
}

// Watcher releases claims.
type Watcher struct {
	cfg   Config
	woken wake.Signal // a request or an outcome was added

	mu       sync.Mutex
	leading  chan struct{} // closed while Run runs
	asked    []*request    // calls of Release that no attempt answers yet
	outcomes []outcome     // of attempts that have ended
}

// New returns a Watcher.
func New(cfg Config) *Watcher {
	if cfg.GoneAfter <= 0 {
		cfg.GoneAfter = DefaultGoneAfter
	}
	return &Watcher{cfg: cfg, woken: wake.New(), leading: make(chan struct{})}
}
