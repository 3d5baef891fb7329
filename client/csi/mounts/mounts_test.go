package mounts_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/client/csi/mounts"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
)

const patience = time.Minute

// use returns the use of a volume by an allocation.
func use(alloc, volume string) mounts.Use {
	return mounts.Use{AllocID: alloc, Namespace: "default", VolumeID: volume, AccessMode: nomad.VolumeMultiNodeMultiWriter,
		AttachmentMode: nomad.VolumeAttachFilesystem}
}

// request returns the request of a use.
func request(u mounts.Use) mounts.Request {
	return mounts.Request{Use: u, PluginID: "p1", ExternalID: "ext-" + u.VolumeID, Secrets: csi.Secrets{"password": "s3cr3t"},
		VolumeContext: map[string]string{"pool": "fast"}, PublishContext: map[string]string{"lun": "7"},
		Options: &nomad.CSIMountOptions{FSType: "ext4", MountFlags: []string{"noatime"}}}
}

// mount mounts a use as the hook of an allocation does.
func (a *agent) mount(u mounts.Use) (mounts.Mounted, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := a.Begin(ctx, u); err != nil {
		return mounts.Mounted{}, err
	}
	return a.Mount(ctx, request(u))
}

func (a *agent) mustMount(t *testing.T, u mounts.Use) mounts.Mounted {
	t.Helper()
	got, err := a.mount(u)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// release ends an allocation and waits until its volumes are released.
func (a *agent) release(t *testing.T, alloc string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := errors.Join(a.End(alloc), a.Settled(ctx, alloc)); err != nil {
		t.Fatal(err)
	}
}

// nothingLeft checks that no agent has left anything.
func (w *world) nothingLeft(a *agent) {
	w.t.Helper()
	a.stop()
	if got := w.points(); len(got) > 0 {
		w.t.Errorf("mounts remain: %q", got)
	}
	if got := w.files(); len(got) > 0 {
		w.t.Errorf("files remain: %q", got)
	}
	if got := w.store.states(); len(got) > 0 {
		w.t.Errorf("records remain: %v", got)
	}
	if staged, published := w.plugin.used(); len(staged)+len(published) > 0 {
		w.t.Errorf("the plugin has staged %q and published %q", staged, published)
	}
}

// TestMount checks the life of a volume: what the plugin gets, what the task sees, and that nothing remains.
func TestMount(t *testing.T) {
	w := newWorld(t)
	a := w.start()
	got := a.mustMount(t, use("a1", "data"))
	if err := os.WriteFile(filepath.Join(got.Path, "file"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(w.plugin.volumes, "ext-data", "file")); err != nil {
		t.Errorf("the volume has no file of the task: %v", err)
	}
	req := w.plugin.requests[0]
	if want := taskRoot + "/per-alloc/a1/data/rw-file-system-multi-node-multi-writer"; req.Target != want {
		t.Errorf("target path = %s, want %s", req.Target, want)
	}
	if want := taskRoot + "/staging/default/data/rw-file-system-multi-node-multi-writer"; req.Staging != want {
		t.Errorf("staging path = %s, want %s", req.Staging, want)
	}
	if req.Secrets["password"] != "s3cr3t" || req.PublishContext["lun"] != "7" || req.VolumeContext["pool"] != "fast" ||
		req.Options.FSType != "ext4" || req.Capability.AccessMode != nomad.VolumeMultiNodeMultiWriter {
		t.Errorf("request = %+v", req)
	}
	again, ok, err := a.Mounted(use("a1", "data"))
	if again != got || !ok || err != nil {
		t.Errorf("Mounted() = %v, %t, %v", again, ok, err)
	}
	a.release(t, "a1")
	if want := []string{"default/data a1"}; !slices.Equal(w.calls.freed(), want) {
		t.Errorf("free claims = %q, want %q", w.calls.freed(), want)
	}
	w.nothingLeft(a)
	var events []string
	for _, e := range w.events {
		events = append(events, fmt.Sprint(e.Subsystem, " ", e.Message, " ", e.Details))
	}
	want := []string{"Storage Mount volume map[success:true volume_id:data]", "Storage Unmount volume map[success:true volume_id:data]"}
	if !slices.Equal(events, want) {
		t.Errorf("events = %q, want %q", events, want)
	}
	for name, text := range map[string]string{"log": w.logged(), "records": fmt.Sprint(w.store.uses), "events": fmt.Sprint(events)} {
		if strings.Contains(text, "s3cr3t") || strings.Contains(text, "noatime") {
			t.Errorf("the %s has a secret: %s", name, text)
		}
	}
}

// TestReadOnly checks that a task with a read-only use cannot write, also if the plugin has ignored that.
func TestReadOnly(t *testing.T) {
	w := newWorld(t)
	a := w.start()
	u := use("a1", "data")
	u.ReadOnly = true
	got := a.mustMount(t, u)
	if err := os.WriteFile(filepath.Join(got.Path, "file"), nil, 0o600); !errors.Is(err, unix.EROFS) {
		t.Errorf("write = %v, want EROFS", err)
	}
	if req := w.plugin.requests[0]; !req.ReadOnly || !strings.HasSuffix(req.Target, "/ro-file-system-multi-node-multi-writer") {
		t.Errorf("request = %+v", req)
	}
	a.release(t, "a1")
	w.nothingLeft(a)
}

// TestLastUser checks that a volume is unstaged only when its last user has ended, also after a restart of the agent.
func TestLastUser(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart=%t", restart), func(t *testing.T) {
			w := newWorld(t)
			a := w.start()
			a.mustMount(t, use("a1", "data"))
			second := a.mustMount(t, use("a2", "data"))
			if restart {
				a.stop()
				a = w.start()
				if got, ok, err := a.Mounted(use("a2", "data")); got != second || !ok || err != nil {
					t.Errorf("Mounted() after the restart = %v, %t, %v", got, ok, err)
				}
			}
			a.release(t, "a1")
			if staged, published := w.plugin.used(); len(staged) != 1 || len(published) != 1 {
				t.Errorf("after the first end: staged %q, published %q", staged, published)
			}
			if err := os.WriteFile(filepath.Join(second.Path, "file"), nil, 0o600); err != nil {
				t.Errorf("the other allocation cannot write: %v", err)
			}
			a.release(t, "a2")
			w.nothingLeft(a)
		})
	}
}

// TestOtherOptions checks that a volume is not shared with an allocation that asks for other mount options.
func TestOtherOptions(t *testing.T) {
	w := newWorld(t)
	a := w.start()
	a.mustMount(t, use("a1", "data"))
	u := use("a2", "data")
	other := request(u)
	other.Options = &nomad.CSIMountOptions{MountFlags: []string{"noexec"}}
	ctx := context.Background()
	if err := a.Begin(ctx, u); err != nil {
		t.Fatal(err)
	}
	_, err := a.Mount(ctx, other)
	if err == nil || !strings.Contains(err.Error(), "allocation a1 uses the volume on this node with other mount_options") {
		t.Errorf("Mount() = %v", err)
	}
	same := request(u)
	same.Options = &nomad.CSIMountOptions{FSType: "ext4", MountFlags: []string{"noatime"}} // another pointer
	if _, err := a.Mount(ctx, same); err != nil {
		t.Errorf("Mount() with the same options = %v", err)
	}
	a.release(t, "a1")
	a.release(t, "a2")
	w.nothingLeft(a)
}

// TestConcurrent mounts and releases one volume for many allocations at a time. The plugin reports overlapping calls.
func TestConcurrent(t *testing.T) {
	w := newWorld(t)
	a := w.start()
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			id := fmt.Sprintf("alloc%d", i)
			for range 3 {
				if _, err := a.mount(use(id, "data")); err != nil {
					t.Error(err)
				}
				a.release(t, id)
			}
		})
	}
	wg.Wait()
	w.nothingLeft(a)
}

// TestHangingCall checks that a plugin that hangs for one volume delays only the allocations with it, and none that is stopped.
func TestHangingCall(t *testing.T) {
	w := newWorld(t)
	a := w.start()
	w.plugin.set(func(p *plugin) { p.hang = "ext-stuck" })
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, id := range []string{"a1", "a2"} {
		wg.Go(func() {
			err := a.Begin(ctx, use(id, "stuck"))
			if err == nil {
				_, err = a.Mount(ctx, request(use(id, "stuck")))
			}
			if !errors.Is(err, context.Canceled) {
				t.Errorf("Mount() = %v, want the end of the context", err)
			}
		})
	}
	a.mustMount(t, use("a3", "data"))
	a.release(t, "a3")
	stop()
	wg.Wait()
	w.plugin.set(func(p *plugin) { p.hang = "" })
	a.release(t, "a1")
	a.release(t, "a2")
	w.nothingLeft(a)
}

// TestManyVolumes mounts 500 volumes for 50 allocations, restarts the agent, and releases them.
func TestManyVolumes(t *testing.T) {
	w := newWorld(t)
	a := w.start()
	each := func(do func(alloc int)) {
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() { do(i) })
		}
		wg.Wait()
	}
	each(func(i int) {
		for v := range 10 {
			if _, err := a.mount(use(fmt.Sprintf("alloc%d", i), fmt.Sprintf("v%d-%d", i, v))); err != nil {
				t.Error(err)
			}
		}
	})
	a.stop()
	a = w.start()
	each(func(i int) {
		for v := range 10 {
			if _, ok, err := a.Mounted(use(fmt.Sprintf("alloc%d", i), fmt.Sprintf("v%d-%d", i, v))); !ok || err != nil {
				t.Errorf("volume %d of allocation %d: Mounted() = %t, %v", v, i, ok, err)
			}
		}
		a.release(t, fmt.Sprintf("alloc%d", i))
	})
	if got := len(w.calls.freed()); got != 500 {
		t.Errorf("%d claims are free, want 500", got)
	}
	w.nothingLeft(a)
}

// TestDetach checks what the servers can release.
func TestDetach(t *testing.T) {
	w := newWorld(t)
	a := w.start()
	a.mustMount(t, use("a1", "data"))
	req := &message.ClientCSINodeDetachVolumeRequest{PluginID: "p1", VolumeID: "data", VolumeNamespace: "default", AllocID: "a1", ExternalID: "ext-data"}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if err := a.Detach(ctx, req); err == nil {
		t.Error("Detach() of a running allocation = nil")
	}
	if staged, published := w.plugin.used(); len(staged) != 1 || len(published) != 1 {
		t.Fatalf("the volume of a running allocation was unmounted: staged %q, published %q", staged, published)
	}
	w.plugin.set(func(p *plugin) { p.fails = map[string]error{"unpublish": errors.New("device is busy")} })
	if err := a.End("a1"); err != nil {
		t.Fatal(err)
	}
	if err := a.Detach(context.Background(), req); err == nil || !strings.Contains(err.Error(), "device is busy") {
		t.Errorf("Detach() with a failing plugin = %v", err)
	}
	if got := w.calls.freed(); len(got) > 0 {
		t.Errorf("claims %q are free, but the volume is mounted", got)
	}
	w.plugin.set(func(p *plugin) { p.fails = nil })
	if err := a.Detach(context.Background(), req); err != nil {
		t.Errorf("Detach() = %v", err)
	}
	if staged, published := w.plugin.used(); len(staged)+len(published) > 0 {
		t.Errorf("after Detach: staged %q, published %q", staged, published)
	}
	a.release(t, "a1")
	if err := a.Detach(context.Background(), req); err != nil {
		t.Errorf("Detach() of a volume that is not mounted = %v", err)
	}
	for field, bad := range map[string]*message.ClientCSINodeDetachVolumeRequest{
		"PluginID": {VolumeID: "v", AllocID: "a"}, "VolumeID": {PluginID: "p", AllocID: "a"}, "AllocID": {PluginID: "p", VolumeID: "v"}} {
		if err := a.Detach(context.Background(), bad); err == nil || err.Error() != field+" is required" {
			t.Errorf("Detach() without %s = %v", field, err)
		}
	}
	w.nothingLeft(a)
}

// TestExpand checks the paths that a plugin gets to expand a file system.
func TestExpand(t *testing.T) {
	w := newWorld(t)
	a := w.start()
	a.mustMount(t, use("a1", "data"))
	req := &message.ClientCSINodeExpandVolumeRequest{PluginID: "p1", VolumeID: "data", VolumeNamespace: "default", ExternalID: "ext-data",
		Capacity: &csi.CapacityRange{RequiredBytes: 1 << 30}, Claim: &csi.Claim{AllocationID: "a1"}}
	got, err := a.Expand(context.Background(), req)
	if got != 1<<30 || err != nil {
		t.Errorf("Expand() = %d, %v", got, err)
	}
	published := w.plugin.requests[0]
	if e := w.plugin.expanded[0]; e.Volume != "ext-data" || e.Path != published.Target || e.Staging != published.Staging {
		t.Errorf("request = %+v", e)
	}
	req.Claim.AllocationID = "a2"
	if _, err := a.Expand(context.Background(), req); err == nil || !strings.Contains(err.Error(), "does not use it") {
		t.Errorf("Expand() for another allocation = %v", err)
	}
	a.release(t, "a1")
	w.nothingLeft(a)
}

// TestStrangeIDs checks that no ID of a volume leads out of its directory or into that of another.
func TestStrangeIDs(t *testing.T) {
	w := newWorld(t)
	a := w.start()
	seen := map[string]string{}
	for i, id := range []string{"data[3]", "a/b", "..", "../../../x", ".", "a b", "ü", strings.Repeat("x", 300), "id-sha256-0"} {
		u := use(fmt.Sprintf("a%d", i), id)
		ctx := context.Background()
		req := request(u)
		req.ExternalID = fmt.Sprintf("ext-%d", i)
		if err := a.Begin(ctx, u); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Mount(ctx, req); err != nil {
			t.Errorf("%q: %v", id, err)
			continue
		}
		at := w.plugin.requests[len(w.plugin.requests)-1].Staging
		if parts := strings.Split(strings.TrimPrefix(at, taskRoot+"/"), "/"); len(parts) != 4 || seen[at] != "" {
			t.Errorf("%q is staged at %s, as %q", id, at, seen[at])
		}
		seen[at] = id
	}
	for i := range 9 {
		a.release(t, fmt.Sprintf("a%d", i))
	}
	w.nothingLeft(a)
}

// TestUnpublishFails checks that the servers are asked again while they have no leader, and not after a refusal.
func TestUnpublishFails(t *testing.T) {
	w := newWorld(t)
	a := w.start()
	a.mustMount(t, use("a1", "data"))
	w.calls.mu.Lock()
	w.calls.err = fmt.Errorf("call: %w", errNoLeader)
	w.calls.mu.Unlock()
	if err := a.End("a1"); err != nil {
		t.Fatal(err)
	}
	testpace.Until(t, "the volume is unmounted", func() bool { return w.store.states()["a1 data"] == "detached" })
	w.calls.mu.Lock()
	w.calls.err = errors.New("could not detach from controller: no healthy controllers")
	w.calls.mu.Unlock()
	a.release(t, "a1")
	w.nothingLeft(a)
}

var errNoLeader = apierror.ErrNoLeader
