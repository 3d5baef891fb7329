package allocrunner_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/client/allochook"
	"github.com/open-nomad/open-nomad/client/csi/mounts"
	"github.com/open-nomad/open-nomad/drivers/mock"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// mountsVolumes is a driver that can mount volumes.
type mountsVolumes struct{ *mock.Driver }

func (d mountsVolumes) Capabilities() drivers.Capabilities {
	c := d.Driver.Capabilities()
	c.Mounts = true
	return c
}

// claimed is a node whose volumes are in use until free is closed.
type claimed struct {
	allochook.Peers
	free chan struct{}

	mu   sync.Mutex
	done []string
}

func (c *claimed) did(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done = append(c.done, what)
}

func (c *claimed) steps() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.done, " ")
}

func (c *claimed) Call(_ context.Context, _ string, _, resp any) error {
	select {
	case <-c.free:
		resp.(*message.CSIVolumeClaimResponse).Volume = &csi.Volume{PluginID: "p"}
		return nil
	default:
		return csi.ErrMaxClaims
	}
}

func (c *claimed) Begin(context.Context, mounts.Use) error { return nil }

func (c *claimed) Mount(context.Context, mounts.Request) (mounts.Mounted, error) {
	c.did("mount")
	return mounts.Mounted{}, nil
}

func (*claimed) Mounted(mounts.Use) (mounts.Mounted, bool, error) {
	return mounts.Mounted{}, false, nil
}

func (c *claimed) End(string) error { c.did("end"); return nil }

func (*claimed) Settled(context.Context, string) error { return nil }

// withVolume returns an allocation of a task that runs for an hour, with a volume.
func (c *claimed) withVolume(w *world) (*world, *nomad.Allocation) {
	w.driver = func(d *mock.Driver) drivers.Driver { return mountsVolumes{d} }
	w = w.agent()
	w.csi, w.peers = c, c
	a := allocation(nomad.JobTypeBatch, mockTask("web", map[string]any{"run_for": "1h"}))
	a.Job.TaskGroups[0].Volumes = map[string]*nomad.VolumeRequest{"v": {Name: "v", Type: "csi", Source: "data"}}
	return w, a
}

// TestCSI_WaitIsVisible checks that the servers see what an allocation waits for before its tasks exist, and afterwards.
func TestCSI_WaitIsVisible(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &claimed{free: make(chan struct{})}
		w, a := c.withVolume(newWorld(t))
		r := w.runner(a)
		go r.Run(t.Context()) //nolint:errcheck // ends with the test
		time.Sleep(10 * time.Minute)
		waits := func() (n int) {
			for _, e := range w.updates.alloc().TaskStates["web"].Events {
				if strings.Contains(e.DisplayMessage, `Waiting for CSI volume "data": volume max claims reached`) && e.Time > 0 {
					n++
				}
			}
			return n
		}
		if got := w.updates.alloc(); got.ClientStatus != nomad.AllocClientStatusPending || waits() != 1 {
			t.Errorf("the servers have the status %s and the events %+v", got.ClientStatus, got.TaskStates["web"].Events)
		}
		close(c.free)
		time.Sleep(5 * time.Minute)
		if got := w.updates.alloc(); got.ClientStatus != nomad.AllocClientStatusRunning || waits() != 1 {
			t.Errorf("afterwards they have the status %s and the events %+v", got.ClientStatus, got.TaskStates["web"].Events)
		}
		if err := r.Stop(t.Context()); err != nil || c.steps() != "mount end" {
			t.Errorf("Stop() = %v, steps %s", err, c.steps())
		}
	})
}

// TestCSI_StopWhileWaiting checks that an allocation that waits for a volume stops at once.
func TestCSI_StopWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &claimed{free: make(chan struct{})}
		w, a := c.withVolume(newWorld(t))
		r := w.runner(a)
		go r.Run(t.Context()) //nolint:errcheck // ends with the test
		time.Sleep(10 * time.Minute)
		begun := time.Now()
		if err := r.Stop(t.Context()); err != nil || time.Since(begun) > time.Second || c.steps() != "end" {
			t.Errorf("Stop() = %v after %s, steps %s", err, time.Since(begun), c.steps())
		}
	})
}
