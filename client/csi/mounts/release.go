package mounts

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/client/csi/instances"
	"github.com/open-nomad/open-nomad/client/servers"
	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/internal/backoff"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// sweepEvery is how often Run looks for mounts that belong to no use.
const sweepEvery = 5 * time.Minute

// freeFor limits how long Run tells the servers that a claim is free. They ask by themselves.
const freeFor = 10 * time.Minute

// errOver means that Run has returned: nothing is released any more.
var errOver = errors.New("the agent ends")

// End marks all volumes of an allocation, whose tasks have ended, as to be released. Run does the work.
func (m *Manager) End(alloc string) error {
	var errs []error
	for _, r := range m.list() {
		if r.AllocID == alloc && live(r.State) {
			_, err := m.move(r.Key(), evEnd, nil)
			errs = append(errs, err)
		}
	}
	m.wake.Send()
	return errors.Join(errs...)
}

// Settled waits until no volume of an allocation is being released, Run has returned, or ctx ends.
func (m *Manager) Settled(ctx context.Context, alloc string) error {
	return m.await(ctx, func(r *state.CSIMount) bool { return r.AllocID == alloc && !live(r.State) })
}

// Quiet waits until no volume of a plugin is being unmounted, or ctx ends. The plugin should not be stopped before.
func (m *Manager) Quiet(ctx context.Context, plugin string) error {
	return m.await(ctx, func(r *state.CSIMount) bool { return r.PluginID == plugin && r.State == unmounting })
}

// await waits until no use is as described.
func (m *Manager) await(ctx context.Context, is func(*state.CSIMount) bool) error {
	for {
		changed := m.changed.Next()
		found := false
		for _, r := range m.list() {
			found = found || is(r)
		}
		if !found {
			return nil
		}
		select {
		case <-changed:
		case <-m.over:
			return errOver
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Run releases the volumes of ended allocations until ctx ends. It is called once.
func (m *Manager) Run(ctx context.Context) error {
	var workers sync.WaitGroup
	defer close(m.over)
	defer workers.Wait()
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	over, running := make(chan string), map[string]bool{}
	m.sweep()
	for {
		for _, r := range m.list() {
			key := r.Key()
			if live(r.State) || running[key] {
				continue
			}
			running[key] = true
			workers.Go(func() {
				m.release(ctx, key)
				select {
				case over <- key:
				case <-ctx.Done():
				}
			})
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-m.wake:
		case key := <-over:
			delete(running, key)
		case <-tick.C:
			m.sweep()
		}
	}
}

// release unmounts a use, and then tells the servers.
func (m *Manager) release(ctx context.Context, key string) {
	again := backoff.Backoff{Min: m.cfg.RetryMin, Max: m.cfg.RetryMax}
	var absent time.Time // since when no plugin is registered
	for {
		who := byPlugin
		if !absent.IsZero() && time.Since(absent) >= m.cfg.Patience {
			who = bySelf
		}
		err := m.unmount(ctx, key, who)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return // the next agent goes on
		}
		switch {
		case !errors.Is(err, instances.ErrNotFound):
			absent = time.Time{}
		case absent.IsZero():
			absent = time.Now()
		}
		m.waiting(key, err)
		if again.WaitJitter(ctx) != nil {
			return
		}
	}
	m.free(ctx, key)
}

// waiting records why a use is not released, and logs it when it changes.
func (m *Manager) waiting(key string, err error) {
	m.mu.Lock()
	r, before := m.uses[key], m.waits[key]
	m.waits[key] = err.Error()
	m.mu.Unlock()
	if r != nil && before != err.Error() {
		m.cfg.Log.Warn("a CSI volume is not released yet", "alloc", r.AllocID, "volume", r.VolumeID, "plugin", r.PluginID, "err", err)
	}
}

// free tells the servers that a volume is unmounted, and deletes its record. The servers release the claim then, and
// also without it: they ask the node.
func (m *Manager) free(ctx context.Context, key string) {
	r := m.use(key)
	if r == nil {
		return
	}
	mode := csi.ClaimWrite
	if r.ReadOnly {
		mode = csi.ClaimRead
	}
	again, begun := backoff.Backoff{Min: m.cfg.RetryMin, Max: m.cfg.RetryMax}, time.Now()
	for {
		req := message.CSIVolumeUnpublishRequest{VolumeID: r.VolumeID, Claim: &csi.Claim{AllocationID: r.AllocID, NodeID: m.cfg.NodeID,
			Mode: mode, AccessMode: r.AccessMode, AttachmentMode: r.AttachmentMode, State: csi.ClaimNodeDetached}}
		req.Namespace = r.Namespace
		err := m.cfg.Calls.Call(ctx, "CSIVolume.Unpublish", &req, &message.CSIVolumeUnpublishResponse{})
		if ctx.Err() != nil {
			return
		}
		if err == nil || !Temporary(err) || time.Since(begun) > freeFor {
			if err != nil {
				m.cfg.Log.Warn("report that a CSI volume is unmounted: the servers will ask the node", "alloc", r.AllocID, "volume", r.VolumeID, "err", err)
			}
			break
		}
		if again.WaitJitter(ctx) != nil {
			return
		}
	}
	if _, err := m.move(key, evFree, nil); err != nil {
		m.cfg.Log.Error("forget a released CSI volume", "alloc", r.AllocID, "volume", r.VolumeID, "err", err)
	}
}

// temporary are errors after which the servers may answer a call later. A claim or its release may be repeated.
var temporary = []error{servers.ErrNone, apierror.ErrNoLeader, apierror.ErrNotReady, apierror.ErrNoRegionPath, apierror.ErrNodeSession,
	apierror.ErrUnsent, apierror.ErrNoStream, apierror.ErrLost, apierror.ErrMaybeApplied}

// Temporary reports whether the servers may answer a call later.
func Temporary(err error) bool {
	return slices.ContainsFunc(temporary, func(t error) bool { return errors.Is(err, t) })
}
