package allochook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/client/csi/mounts"
	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/internal/backoff"
	"github.com/open-nomad/open-nomad/internal/untrusted"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// The attempts to claim a volume, as in Nomad 2.0.
const (
	claimMin   = time.Second
	claimMax   = time.Minute
	claimLimit = 24 * time.Hour
)

// releasePatience is how long Postrun waits for the release of the volumes, which goes on afterwards.
const releasePatience = 5 * time.Second

// maxClaimText limits the reason in the event of an allocation that waits for a volume.
const maxClaimText = 512

// CSIVolumes mounts and releases the CSI volumes of the node (mounts.Manager).
type CSIVolumes interface {
	// Begin records that the servers may soon have a claim.
	Begin(ctx context.Context, u mounts.Use) error
	Mount(ctx context.Context, req mounts.Request) (mounts.Mounted, error)
	// Mounted reports whether a volume is mounted, also by an earlier agent.
	Mounted(u mounts.Use) (mounts.Mounted, bool, error)
	// End releases the volumes of an allocation; Settled waits for that.
	End(alloc string) error
	Settled(ctx context.Context, alloc string) error
}

// csiHook claims the CSI volumes of the allocation at the servers and mounts them:
//
//	Prerun:   mounted by an earlier agent? ──no──▶ claim, again while others have claims ─▶ mount
//	Postrun:  unmount, again while the plugin is away ─▶ the claim is free
//
// The volumes are claimed one after the other, in the same order by all allocations: two that need the same volumes do not
// wait for each other. CSIVolumes keeps what must survive the agent, and releases the volumes after Postrun.
type csiHook struct {
	csi     CSIVolumes // nil: the node mounts no volumes
	peers   Peers
	drivers Drivers
	start   Start
	alloc   string
	node    string
	log     *slog.Logger
}

func newCSIHook(c Config) hook.Hook {
	return &csiHook{csi: c.CSI, peers: c.Peers, drivers: c.Drivers, start: c.Start, alloc: c.Alloc.ID, node: c.Alloc.NodeID,
		log: c.Log}
}

func (*csiHook) Name() string { return "csi_hook" }

// csiVolume is a volume of the allocation.
type csiVolume struct {
	use        mounts.Use
	options    *nomad.CSIMountOptions // of the request
	propagates bool
}

func (h *csiHook) Prerun(ctx context.Context, req *PrerunRequest, _ *PrerunResponse) error {
	group := groupOf(req.Alloc)
	if group == nil || len(group.CSIRequests()) == 0 {
		return nil
	}
	if err := h.possible(group); err != nil {
		return err
	}
	volumes, err := volumesOf(req.Alloc, group)
	if err != nil {
		return err
	}
	missing, err := h.missing(volumes)
	if err != nil || len(missing) == 0 {
		return err
	}
	ctx, over := untilStopped(ctx, h.start)
	defer over()
	err = h.mount(ctx, missing)
	if context.Cause(ctx) == errStopped {
		return nil // the tasks do not start
	}
	return err
}

// groupOf returns the group of an allocation, or nil.
func groupOf(a *nomad.Allocation) *nomad.TaskGroup {
	if a.Job == nil {
		return nil
	}
	return a.Job.TaskGroup(a.TaskGroup)
}

// possible returns an error if no task of the group can mount volumes here.
func (h *csiHook) possible(group *nomad.TaskGroup) error {
	if h.csi == nil {
		return errors.New("this node does not mount CSI volumes")
	}
	for _, t := range group.Tasks {
		d, err := h.drivers.Driver(t.Driver)
		if err != nil {
			return fmt.Errorf("task %q: %w", t.Name, err)
		}
		if d.Capabilities().Mounts {
			return nil
		}
	}
	return errors.New("no task supports CSI: the drivers of the group can't mount volumes")
}

// volumesOf returns the volumes of the group. Requests for the same volume in the same modes are one.
func volumesOf(a *nomad.Allocation, group *nomad.TaskGroup) ([]csiVolume, error) {
	var out []csiVolume
	for _, v := range group.CSIRequests() {
		one := csiVolume{use: mounts.UseOf(a, v), options: v.MountOptions, propagates: propagates(group, v.Name)}
		for i, o := range out {
			if o.use.VolumeID != one.use.VolumeID {
				continue
			}
			if o.use != one.use || !sameOptions(o.options, one.options) {
				return nil, fmt.Errorf("the group requests volume %q twice with different modes or mount_options: use one volume block for it",
					one.use.VolumeID)
			}
			out[i].propagates = o.propagates || one.propagates
			one.use = mounts.Use{}
		}
		if one.use != (mounts.Use{}) {
			out = append(out, one)
		}
	}
	slices.SortFunc(out, func(a, b csiVolume) int { return strings.Compare(a.use.VolumeID, b.use.VolumeID) })
	return out, nil
}

func sameOptions(a, b *nomad.CSIMountOptions) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.FSType == b.FSType && slices.Equal(a.MountFlags, b.MountFlags)
}

// propagates reports whether a task of the group wants the mounts that are made later below a volume.
func propagates(group *nomad.TaskGroup, volume string) bool {
	for _, t := range group.Tasks {
		for _, m := range t.VolumeMounts {
			named := m.Volume == volume || strings.Contains(m.Volume, "${")
			if named && m.PropagationMode != "" && m.PropagationMode != nomad.VolumeMountPrivate {
				return true
			}
		}
	}
	return false
}

// missing returns the volumes that no earlier agent has mounted, or that are not mounted any more.
func (h *csiHook) missing(volumes []csiVolume) (out []csiVolume, err error) {
	for _, v := range volumes {
		_, mounted, err := h.csi.Mounted(v.use)
		if err != nil {
			return nil, err
		}
		if !mounted {
			out = append(out, v)
		}
	}
	return out, nil
}

// mount claims the volumes and mounts them.
func (h *csiHook) mount(ctx context.Context, volumes []csiVolume) error {
	requests := make([]mounts.Request, len(volumes))
	for i, v := range volumes {
		claimed, err := h.claim(ctx, v)
		if err != nil {
			return fmt.Errorf("claiming volumes: could not claim volume %s: %w", v.use.VolumeID, err)
		}
		requests[i] = v.request(claimed)
	}
	var work sync.WaitGroup
	errs := make([]error, len(volumes))
	for i, r := range requests {
		work.Go(func() { _, errs[i] = h.csi.Mount(ctx, r) })
	}
	work.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("mounting volumes: %w", err)
	}
	return nil
}

// request returns the request to mount a claimed volume. Each of the mount options of the job replaces that of the volume.
func (v csiVolume) request(claimed *message.CSIVolumeClaimResponse) mounts.Request {
	volume := claimed.Volume
	options := &nomad.CSIMountOptions{}
	for _, o := range []*nomad.CSIMountOptions{volume.MountOptions, v.options} {
		if o == nil {
			continue
		}
		options.FSType = cmp.Or(o.FSType, options.FSType)
		if len(o.MountFlags) > 0 {
			options.MountFlags = o.MountFlags
		}
	}
	return mounts.Request{Use: v.use, PluginID: volume.PluginID, ExternalID: volume.RemoteID(), Options: options,
		PublishContext: claimed.PublishContext, VolumeContext: volume.Context, Secrets: volume.Secrets, Propagates: v.propagates}
}

// claim claims a volume. While other allocations have the claims, or no server can answer, it asks again, and the user sees what
// the allocation waits for.
func (h *csiHook) claim(ctx context.Context, v csiVolume) (*message.CSIVolumeClaimResponse, error) {
	if err := h.csi.Begin(ctx, v.use); err != nil {
		return nil, err
	}
	mode := csi.ClaimWrite
	if v.use.ReadOnly {
		mode = csi.ClaimRead
	}
	again, begun, shown := backoff.Backoff{Min: claimMin, Max: claimMax}, time.Now(), ""
	for {
		req := message.CSIVolumeClaimRequest{VolumeID: v.use.VolumeID, AllocationID: v.use.AllocID, NodeID: h.node, Claim: mode,
			AccessMode: v.use.AccessMode, AttachmentMode: v.use.AttachmentMode, State: csi.ClaimTaken,
			WriteRequest: message.WriteRequest{Namespace: v.use.Namespace}}
		var resp message.CSIVolumeClaimResponse
		err := h.peers.Call(ctx, "CSIVolume.Claim", &req, &resp)
		if err == nil && resp.Volume == nil {
			err = errors.New("the servers have sent no volume")
		}
		if err == nil {
			return &resp, nil
		}
		if !claimAgain(err) || ctx.Err() != nil || time.Since(begun) > claimLimit {
			return nil, err
		}
		if text := untrusted.Shorten(err.Error(), maxClaimText); text != shown {
			shown = text
			h.start.Note(fmt.Sprintf("Waiting for CSI volume %q: %s", v.use.VolumeID, text))
			h.log.Info("waiting for a CSI volume", "alloc", v.use.AllocID, "volume", v.use.VolumeID, "err", err)
		}
		if again.WaitJitter(ctx) != nil {
			return nil, err
		}
	}
}

// claimAgain reports whether a claim that failed may succeed later. Servers of Nomad 2.0 send only the texts.
func claimAgain(err error) bool {
	if mounts.Temporary(err) {
		return true
	}
	text := err.Error()
	return slices.ContainsFunc([]string{csi.ErrMaxClaims.Error(), csi.ErrRetryable.Error(), "no servers", "No cluster leader"},
		func(known string) bool { return strings.Contains(text, known) })
}

// Postrun releases the volumes. Nobody waits for a plugin that does not answer.
func (h *csiHook) Postrun(ctx context.Context) error {
	if h.csi == nil {
		return nil
	}
	if err := h.csi.End(h.alloc); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, releasePatience)
	defer cancel()
	_ = h.csi.Settled(ctx, h.alloc) // the manager logs what is left
	return nil
}

// Destroy releases the volumes if no agent ran Postrun.
func (h *csiHook) Destroy(context.Context) error {
	if h.csi == nil {
		return nil
	}
	return h.csi.End(h.alloc)
}
