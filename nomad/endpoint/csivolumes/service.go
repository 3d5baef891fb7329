// Package csivolumes handles the RPC methods of CSI volumes, of their snapshots and claims, and of CSI plugins.
//
//	Register:  rules ─▶ lock ─▶ controller validates ─▶ seal secrets ─▶ log entry
//	Create:    rules ─▶ lock ─▶ controller creates ───▶ seal secrets ─▶ log entry
//	           an existing volume: merge ─▶ controller and nodes expand ─▶ log entry
//	Delete:    lock ─▶ not in use, still the leader ─▶ controller deletes ─▶ log entry
//	Claim:     requested by the node's allocation ─▶ lock ─▶ log entry ─▶ controller attaches ─▶ reply with secrets
//	Unpublish: log entry that the claim has ended ─▶ package claims releases it
//
// The lock is that of the volume in package csicall: operations on one volume never overlap, and those on different volumes
// never wait for each other. Several records may be of one volume of the storage system: every operation also takes the lock of
// that (csi.Volume.RemoteKey), and Delete refuses it while another record exists. Controller plugins do the work in the storage
// system. What they return is checked before it is stored, and they may be called again for what is already done.
//
// If the entry of a created or deleted volume fails, the storage system and the state differ. The error then names the external
// volume and the command that ends this. A created volume is never deleted automatically, because the plugin may have returned
// one that had the name already.
//
// Secrets are encrypted before they are written (package csisecret). They leave the servers in calls to plugins and in the reply
// of Claim only.
//
// The package keeps no state and starts no goroutine.
package csivolumes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/csicall"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// Plugins calls the plugins. csicall.Caller implements it.
type Plugins interface {
	Controller(ctx context.Context, method string, req csicall.ControllerRequest, resp any) error
	Node(ctx context.Context, node, method string, req rpc.ServerCall, resp any) error
	Lock(ctx context.Context, namespace, volume string) (unlock func(), err error)
}

// Releases releases the claims of ended allocations. claims.Watcher implements it.
type Releases interface {
	// Release makes an attempt to release a claim, and waits for it. The error is what the claim waits for.
	Release(ctx context.Context, namespace, volume, alloc string) error
}

// Secrets encrypts the secrets of volumes. csisecret.Sealer implements it.
type Secrets interface {
	Seal(ctx context.Context, secrets csi.Secrets) (*csi.Sealed, error)
	// Of returns the secrets of a stored volume.
	Of(ctx context.Context, v *csi.Volume) (csi.Secrets, error)
}

// Plans commits the plans. plan.Applier implements it.
type Plans interface {
	// Withhold makes a volume unusable for plans until release is called. Earlier plans are committed.
	Withhold(volume string) (release func())
}

// Blocked holds the evaluations that wait. broker.Blocked implements it.
type Blocked interface {
	// UnblockFailed retries the evaluations whose plans were rejected.
	UnblockFailed()
}

// Config configures a Service. All fields are required.
type Config struct {
	Plugins  Plugins
	Releases Releases
	Secrets  Secrets
	Plans    Plans
	Blocked  Blocked
}

// Service handles the methods.
type Service struct {
	*handler.Core
	cfg Config
}

// New returns a Service.
func New(core *handler.Core, cfg Config) *Service { return &Service{core, cfg} }

// lockWithin limits the wait for another operation on the volume. It is longer than the limit of one call to a plugin.
const lockWithin = 3 * time.Minute

// lock waits until no other operation runs on a volume.
func (s *Service) lock(ctx context.Context, namespace, id string) (unlock func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, lockWithin)
	defer cancel()
	return s.cfg.Plugins.Lock(ctx, namespace, id)
}

// lockRemote waits until no other operation runs on the volume of the storage system. The caller holds the lock of the record.
func (s *Service) lockRemote(ctx context.Context, v *csi.Volume) (unlock func(), err error) {
	return s.lock(ctx, "", v.RemoteKey())
}

// controller calls a method of the controller plugin of a request, such as "AttachVolume".
func (s *Service) controller(ctx context.Context, method string, req csicall.ControllerRequest, resp any) error {
	if err := s.cfg.Plugins.Controller(ctx, method, req, resp); err != nil {
		return fmt.Errorf("controller %s: %w", words(method), err)
	}
	return nil
}

// words returns the words of a method, such as "attach volume" for "AttachVolume".
func words(method string) string {
	var out strings.Builder
	for i, r := range method {
		if i > 0 && r >= 'A' && r <= 'Z' {
			out.WriteByte(' ')
		}
		out.WriteRune(r)
	}
	return strings.ToLower(out.String())
}

// final returns the error of a log entry after a change in a storage system. The text of an error for which the call could be
// repeated would be lost.
func final(err error) error {
	if errors.Is(err, apierror.ErrNoLeader) || errors.Is(err, apierror.ErrNotReady) {
		return fmt.Errorf("%w: %v", apierror.ErrMaybeApplied, err)
	}
	return err
}

// joined returns the errors of several objects. One error is returned unchanged.
func joined(errs []error) error {
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}
