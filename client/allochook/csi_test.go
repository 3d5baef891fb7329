package allochook

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/client/csi/mounts"
	"github.com/open-nomad/open-nomad/client/migrate"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// csiNode is a node with CSI volumes, and the servers with their claims.
type csiNode struct {
	*node
	mu      sync.Mutex
	done    []string            // what the hook does, in order
	mounted map[mounts.Use]bool //
	claims  func(volume string) error
	mount   func(ctx context.Context, r mounts.Request) error
	request []mounts.Request
	settles chan struct{} // nil: at once
}

func newCSINode() *csiNode {
	return &csiNode{node: newNode(), mounted: map[mounts.Use]bool{}, claims: func(string) error { return nil },
		mount: func(context.Context, mounts.Request) error { return nil }}
}

func (n *csiNode) did(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.done = append(n.done, fmt.Sprintf(format, args...))
}

func (n *csiNode) Begin(_ context.Context, u mounts.Use) error {
	n.did("begin %s", u.VolumeID)
	return nil
}

func (n *csiNode) Mount(ctx context.Context, r mounts.Request) (mounts.Mounted, error) {
	n.did("mount %s", r.VolumeID)
	n.mu.Lock()
	n.request = append(n.request, r)
	n.mounted[r.Use] = true
	n.mu.Unlock()
	return mounts.Mounted{Path: "/mounted"}, n.mount(ctx, r)
}

func (n *csiNode) Mounted(u mounts.Use) (mounts.Mounted, bool, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return mounts.Mounted{Path: "/mounted"}, n.mounted[u], nil
}

func (n *csiNode) End(alloc string) error {
	n.did("end %s", alloc)
	return nil
}

func (n *csiNode) Settled(ctx context.Context, _ string) error {
	select {
	case <-n.settles:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (n *csiNode) Call(_ context.Context, method string, req, resp any) error {
	r := req.(*message.CSIVolumeClaimRequest)
	n.did("%s %s %d", strings.TrimPrefix(method, "CSIVolume."), r.VolumeID, r.Claim)
	resp.(*message.CSIVolumeClaimResponse).Volume = &csi.Volume{ID: r.VolumeID, ExternalID: "ext-" + r.VolumeID, PluginID: "p1",
		Secrets: csi.Secrets{"k": "v"}, Context: map[string]string{"c": "d"},
		MountOptions: &nomad.CSIMountOptions{FSType: "ext4", MountFlags: []string{"noatime"}}}
	resp.(*message.CSIVolumeClaimResponse).PublishContext = map[string]string{"lun": "3"}
	return n.claims(r.VolumeID)
}

func (n *csiNode) Snapshot(context.Context, *nomad.Node, string, string) (migrate.Remote, error) {
	return migrate.Remote{}, nil
}

// mounter is a driver that may mount volumes.
type mounter struct {
	drivers.Driver
	mounts bool
}

func (m mounter) Capabilities() drivers.Capabilities { return drivers.Capabilities{Mounts: m.mounts} }

// driverOf finds one driver by every name.
type driverOf struct{ mounter }

func (d driverOf) Driver(string) (drivers.Driver, error) { return d.mounter, nil }

// with returns the configuration of an allocation that requests volumes.
func (n *csiNode) with(volumes ...*nomad.VolumeRequest) Config {
	c := n.config("/nowhere", nil)
	c.CSI, c.Peers, c.Drivers = n, n, driverOf{mounter{mounts: true}}
	group := c.Alloc.Job.TaskGroups[0]
	group.Volumes = map[string]*nomad.VolumeRequest{}
	for _, v := range volumes {
		v.Type, v.AttachmentMode = nomad.VolumeTypeCSI, nomad.VolumeAttachFilesystem
		group.Volumes[v.Name] = v
	}
	c.Alloc.Name, c.Alloc.Namespace = "j.g[2]", "team"
	return c
}

func volume(name string) *nomad.VolumeRequest {
	return &nomad.VolumeRequest{Name: name, Source: name, AccessMode: nomad.VolumeSingleNodeWriter}
}

// prerun runs the hook.
func (n *csiNode) prerun(ctx context.Context, c Config) error {
	return newCSIHook(c).(PrerunHook).Prerun(ctx, &PrerunRequest{Alloc: c.Alloc}, &PrerunResponse{})
}

// TestCSI checks the order of the steps, and what is mounted. Volumes that are mounted already are not claimed.
func TestCSI(t *testing.T) {
	n := newCSINode()
	read, own := volume("b"), volume("a")
	read.ReadOnly, read.AccessMode = true, nomad.VolumeMultiNodeReader
	own.PerAlloc, own.MountOptions = true, &nomad.CSIMountOptions{FSType: "xfs"}
	again := volume("a2") // another name of the same volume
	again.Source, again.PerAlloc, again.MountOptions = "a", true, &nomad.CSIMountOptions{FSType: "xfs"}
	kept := volume("kept")
	c := n.with(read, own, again, kept)
	n.mounted[mounts.UseOf(c.Alloc, kept)] = true
	c.Alloc.Job.TaskGroups[0].Tasks[0].VolumeMounts = []*nomad.VolumeMount{{Volume: "b", PropagationMode: "host-to-task"}}
	if err := n.prerun(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	slices.Sort(n.done[4:]) // mounted at the same time
	want := []string{"begin a[2]", "Claim a[2] 1", "begin b", "Claim b 0", "mount a[2]", "mount b"}
	if !slices.Equal(n.done, want) {
		t.Errorf("steps = %q, want %q", n.done, want)
	}
	slices.SortFunc(n.request, func(a, b mounts.Request) int { return strings.Compare(a.VolumeID, b.VolumeID) })
	first := mounts.Request{Use: mounts.Use{AllocID: "new", Namespace: "team", VolumeID: "a[2]", AccessMode: nomad.VolumeSingleNodeWriter,
		AttachmentMode: nomad.VolumeAttachFilesystem}, PluginID: "p1", ExternalID: "ext-a[2]", Secrets: csi.Secrets{"k": "v"},
		Options:       &nomad.CSIMountOptions{FSType: "xfs", MountFlags: []string{"noatime"}},
		VolumeContext: map[string]string{"c": "d"}, PublishContext: map[string]string{"lun": "3"}}
	if !reflect.DeepEqual(n.request[0], first) {
		t.Errorf("request = %+v\nwant %+v", n.request[0], first)
	}
	if b := n.request[1]; !b.ReadOnly || !b.Propagates || b.Options.FSType != "ext4" {
		t.Errorf("request = %+v", b)
	}
}

// TestCSI_Claim checks which errors of the servers are waited for, and that the user sees them.
func TestCSI_Claim(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		waits bool
	}{
		"max claims":    {errors.New(`alloc "new" failed to claim volume "data": ` + csi.ErrMaxClaims.Error()), true},
		"retryable":     {errors.New("controller publish: " + csi.ErrRetryable.Error() + ": rpc error"), true},
		"no leader":     {apierror.ErrNoLeader, true},
		"no servers":    {errors.New("no servers: no server can be reached"), true},
		"lost":          {fmt.Errorf("claim: %w", apierror.ErrLost), true},
		"unschedulable": {csi.ErrUnschedulable, false},
		"denied":        {apierror.ErrPermissionDenied, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, tries := newCSINode(), 0
				n.claims = func(string) error {
					if tries++; tries <= 20 {
						return c.err
					}
					return nil
				}
				begun := time.Now()
				err := n.prerun(t.Context(), n.with(volume("data")))
				if c.waits {
					if took := time.Since(begun); err != nil || tries != 21 || took < 7*time.Minute || took > 20*time.Minute {
						t.Errorf("Prerun() = %v after %d tries and %s", err, tries, took)
					}
					if len(n.notes) != 1 || !strings.HasPrefix(n.notes[0], `Waiting for CSI volume "data": `) {
						t.Errorf("events = %q, want one", n.notes)
					}
					return
				}
				if err == nil || tries != 1 || !strings.HasPrefix(err.Error(), "claiming volumes: could not claim volume data: ") {
					t.Errorf("Prerun() = %v after %d tries", err, tries)
				}
			})
		})
	}
}

// TestCSI_ClaimLimit checks that an allocation waits for one day.
func TestCSI_ClaimLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, begun := newCSINode(), time.Now()
		n.claims = func(string) error { return csi.ErrMaxClaims }
		err := n.prerun(t.Context(), n.with(volume("data")))
		if took := time.Since(begun); err == nil || took < 24*time.Hour || took > 25*time.Hour {
			t.Errorf("Prerun() = %v after %s", err, took)
		}
	})
}

// TestCSI_Stop checks that a stop ends a wait for a claim and a call of a plugin at once.
func TestCSI_Stop(t *testing.T) {
	for name, hang := range map[string]func(n *csiNode){
		"claim": func(n *csiNode) { n.claims = func(string) error { return csi.ErrMaxClaims } },
		"mount": func(n *csiNode) {
			n.mount = func(ctx context.Context, _ mounts.Request) error { <-ctx.Done(); return ctx.Err() }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newCSINode()
				hang(n)
				done := make(chan error, 1)
				go func() { done <- n.prerun(t.Context(), n.with(volume("data"))) }()
				time.Sleep(90 * time.Second)
				close(n.stopped)
				begun := time.Now()
				if err := <-done; err != nil || time.Since(begun) > 0 {
					t.Errorf("Prerun() = %v, %s after the stop", err, time.Since(begun))
				}
			})
		})
	}
}

// TestCSI_Release checks that Postrun ends the uses and does not wait for long.
func TestCSI_Release(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newCSINode()
		n.settles = make(chan struct{})
		h := newCSIHook(n.with(volume("data")))
		begun := time.Now()
		if err := h.(PostrunHook).Postrun(t.Context()); err != nil || time.Since(begun) != releasePatience {
			t.Errorf("Postrun() = %v after %s", err, time.Since(begun))
		}
		if err := h.(DestroyHook).Destroy(t.Context()); err != nil || !slices.Equal(n.done, []string{"end new", "end new"}) {
			t.Errorf("Destroy() = %v, steps %q", err, n.done)
		}
	})
}

// TestCSI_Refused checks the errors of groups that cannot run here.
func TestCSI_Refused(t *testing.T) {
	n := newCSINode()
	raw := n.with(volume("data"))
	raw.Drivers = driverOf{}
	none := n.with(volume("data"))
	none.CSI = nil
	writer, reader := volume("w"), volume("r")
	writer.Source, reader.Source, reader.ReadOnly = "data", "data", true
	for want, c := range map[string]Config{
		"no task supports CSI":                 raw,
		"this node does not mount CSI volumes": none,
		`requests volume "data" twice`:         n.with(writer, reader),
	} {
		if err := n.prerun(t.Context(), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Prerun() = %v, want %q", err, want)
		}
	}
	other := n.with()
	other.CSI = nil
	if err := n.prerun(t.Context(), other); err != nil || len(n.done) > 0 {
		t.Errorf("a group without volumes: %v, %q", err, n.done)
	}
}
