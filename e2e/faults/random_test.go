//go:build linux && faults

package faults_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/faults"
)

const (
	historyLength = 40 // actions
	restEvery     = 8  // actions, on average
	restWithin    = 60 * time.Second
	restLasts     = 2 * time.Second
	logLines      = 40
)

// found are histories that have found a fault, reduced to the actions that it needs. Their seeds choose the rest, such as
// the new count of a job. They keep their meaning if actions are added, which a seed alone does not.
var found = []struct {
	name    string
	seed    uint64
	actions []string
}{
	{"a stopped job waited an hour for a disconnected client", 1, []string{"register wide", "rest", "lose node m2", "stop wide", "rest"}},
	{"a replacement waited a minute for the data of a lost node", 7, []string{
		"register plain", "rest", "scale plain", "rest", "lose node m1", "rest", "node is back m1",
		"lose node m2", "rest", "node is back m2", "lose node m3", "rest",
	}},
	{"a group that lacked an allocation was not updated", 101, []string{
		"register store", "register wide", "rest", "lose node m1", "lose node m2", "rest", "update wide", "update store", "rest",
	}},
}

// machineConfig is that of the clients: enough of everything, on every machine.
const machineConfig = `cpu_total_compute = 4000
  memory_total_mb   = 4000
  cni_path          = %q
  users {
    dynamic_user_min = 86000
    dynamic_user_max = 86999
  }`

// serverConfig makes lost nodes known soon.
const serverConfig = quick + "\nserver {\n  heartbeat_grace = \"3s\"\n  min_heartbeat_ttl = \"1s\"\n  failover_heartbeat_ttl = \"8s\"\n}\n"

// TestHistories does random things to a cluster, and compares it with the model whenever it is at rest. HISTORY_SEED
// selects one history, and 801+ the history 801 and those that follow, as far as the time allows.
func TestHistories(t *testing.T) {
	lasting, err := duration()
	if err != nil {
		t.Fatal(err)
	}
	next := func() uint64 { return uint64(time.Now().UnixNano()) % 1_000_000 }
	if text := os.Getenv("HISTORY_SEED"); text != "" {
		first, following := strings.CutSuffix(text, "+")
		seed, err := strconv.ParseUint(first, 10, 64)
		if err != nil {
			t.Fatalf("HISTORY_SEED=%s, want a number, or one with + at its end", text)
		}
		if !following {
			newHistory(t, seed).random()
			return
		}
		next = func() uint64 { seed++; return seed - 1 }
	}
	late := time.Now().Add(lasting * shareOfHistories / 100)
	for n := 0; n == 0 || time.Now().Before(late) && !t.Failed(); n++ {
		seed := next()
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { newHistory(t, seed).random() })
	}
}

// TestFoundHistories repeats the histories that have found a fault.
func TestFoundHistories(t *testing.T) {
	for _, f := range found {
		t.Run(f.name, func(t *testing.T) {
			h := newHistory(t, f.seed)
			for _, text := range f.actions {
				if text == "rest" {
					h.rest()
					continue
				}
				a, target := h.named(text)
				h.act(a, target, text)
			}
			h.end()
		})
	}
}

// A history is a world, and what was done in it.
type history struct {
	*world
	t     *testing.T
	seed  uint64
	begun time.Time
	log   []string
}

// newHistory starts a cluster.
func newHistory(t *testing.T, seed uint64) *history {
	t.Helper()
	plugins := cniPlugins(t)
	c := startWith(t, faults.Options{Servers: 3, Machines: 3, Config: serverConfig, MachineConfig: fmt.Sprintf(machineConfig, plugins)})
	var ids []string
	for _, m := range c.Machines {
		ids = append(ids, m.ID)
	}
	h := &history{t: t, seed: seed, begun: time.Now(), world: &world{model: newModel(ids), cluster: c, rng: rand.New(rand.NewPCG(seed, 35))}}
	if err := h.addVolumes(t.Context()); err != nil {
		h.fail("create volumes: %v", err)
	}
	return h
}

// random does random actions.
func (h *history) random() {
	h.t.Helper()
	for range historyLength {
		h.act(h.choose())
		wait(h.t.Context(), time.Duration(h.rng.IntN(1200))*time.Millisecond)
		if h.rng.IntN(restEvery) == 0 {
			h.rest()
		}
	}
	h.end()
}

// note adds a line to the log.
func (h *history) note(text string) {
	h.log = append(h.log, fmt.Sprintf("%6.1fs %s", time.Since(h.begun).Seconds(), text))
}

// fail explains and ends a history.
func (h *history) fail(format string, args ...any) {
	h.t.Helper()
	h.explain(h.t, h.log)
	h.t.Fatalf("HISTORY_SEED=%d: %s", h.seed, fmt.Sprintf(format, args...))
}

// act does an action.
func (h *history) act(a action, target int, text string) {
	h.t.Helper()
	h.note(text)
	if err := a.do(h.t.Context(), h.world, target); err != nil {
		h.fail("%s: %v", text, err)
	}
	h.rested = false
}

// rest waits for the rest, at which everything must be as the model says.
func (h *history) rest() {
	h.t.Helper()
	h.note("rest")
	if d := h.settle(h.t.Context()); len(d) > 0 {
		h.fail("not as it must be at rest:\n%s", strings.Join(d, "\n"))
	}
}

// end ends drains and losses, then all jobs. Nothing remains of them.
func (h *history) end() {
	h.t.Helper()
	ctx := h.t.Context()
	for i, p := range h.places {
		var err error
		switch {
		case p.frozen:
			err = nodeIsBack(ctx, h.world, i)
		case p.drained:
			err = endDrain(ctx, h.world, i)
		}
		if err != nil {
			h.fail("end: %v", err)
		}
	}
	h.rest()
	h.note("purge all")
	for i, j := range h.jobs {
		if j.registered {
			if err := purge(ctx, h.world, i); err != nil {
				h.fail("purge %s: %v", j.id, err)
			}
		}
	}
	h.rest()
	if err := h.nothing(ctx); err != nil {
		h.fail("at the end: %v", err)
	}
	h.t.Logf("HISTORY_SEED=%d\n%s", h.seed, strings.Join(h.log, "\n"))
}

// cniPlugins returns the directory of the plugins for bridges.
func cniPlugins(t *testing.T) string {
	t.Helper()
	for _, dir := range append(filepath.SplitList(os.Getenv("CNI_PATH")), "/opt/cni/bin", "/usr/lib/cni") {
		if _, err := os.Stat(filepath.Join(dir, "portmap")); err == nil {
			return dir
		}
	}
	t.Skip("needs the package containernetworking-plugins")
	return ""
}

// addVolumes creates a volume on each machine, which every task may write.
func (w *world) addVolumes(ctx context.Context) error {
	for _, id := range w.ids {
		err := w.ask(ctx, func(c *api.Client, o *api.WriteOptions) error {
			_, _, err := c.HostVolumes().Create(&api.HostVolumeCreateRequest{Volume: newVolume(volumeName, id)}, o)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// newVolume returns a volume of a node, which every task may write.
func newVolume(name, node string) *api.HostVolume {
	return &api.HostVolume{Name: name, Namespace: "default", PluginID: "mkdir", NodeID: node, NodePool: "default",
		Parameters:            map[string]string{"mode": "0777"},
		RequestedCapabilities: []*api.HostVolumeCapability{{AttachmentMode: "file-system", AccessMode: "single-node-writer"}}}
}

// settle waits until everything is as it must be at rest, and remains so. It returns the differences.
func (w *world) settle(ctx context.Context) []string {
	late := time.Now().Add(restWithin)
	var since time.Time // as it must be
	for {
		v, err := observe(ctx, w.cluster)
		var d []string
		if err != nil {
			d = []string{err.Error()}
		} else {
			d = w.differences(v)
		}
		switch {
		case len(d) > 0:
			since = time.Time{}
			if time.Now().After(late) {
				return d
			}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) > restLasts:
			w.rest(v)
			w.rested = true
			return nil
		}
		if err == nil {
			w.see(v)
		}
		wait(ctx, 300*time.Millisecond)
	}
}

// nothing collects all allocations, and waits until no machine has a directory of one.
func (w *world) nothing(ctx context.Context) error {
	return until(ctx, func() error {
		if err := collect(ctx, w, 0); err != nil {
			return err
		}
		v, err := observe(ctx, w.cluster)
		if err != nil {
			return err
		}
		if len(v.allocs) > 0 {
			return fmt.Errorf("%d allocations remain", len(v.allocs))
		}
		for id, m := range v.machines {
			if len(m.dirs) > 0 {
				return fmt.Errorf("directories of allocations remain on %s: %v", w.nodeName(id), m.dirs)
			}
		}
		return nil
	})
}

// explain prints what a person needs to understand a failure.
func (w *world) explain(t *testing.T, log []string) {
	t.Helper()
	t.Logf("actions:\n%s", strings.Join(log, "\n"))
	for _, j := range w.jobs {
		t.Logf("want %s: registered %t, stopped %t, %+v, before the canary %+v", j.id, j.registered, j.stopped, j.spec, j.old)
	}
	for i, p := range w.places {
		t.Logf("machine %s, node %s: %+v", w.cluster.Machines[i].Name, w.ids[i], *p)
	}
	v, err := observe(t.Context(), w.cluster)
	if err != nil {
		t.Log(err)
	} else {
		w.explainView(t, v)
	}
	keepLogs(t, w.cluster)
	for _, m := range w.cluster.Machines {
		for _, f := range []string{m.Dir + "/log", m.Data() + "/client/supervise/log"} {
			text, _ := os.ReadFile(f) // the supervisor may have none
			lines := strings.Split(strings.TrimSpace(string(text)), "\n")
			t.Logf("%s:\n%s", f, strings.Join(lines[max(0, len(lines)-logLines):], "\n"))
		}
	}
}

func (w *world) explainView(t *testing.T, v *view) {
	t.Helper()
	slices.SortFunc(v.allocs, func(a, b *api.Allocation) int { return int(a.CreateIndex) - int(b.CreateIndex) })
	for _, a := range v.allocs {
		t.Log(describe(a, w.nodeName(a.NodeID)))
	}
	for _, e := range v.evals {
		t.Logf("evaluation %s of %s (%s): %s %s, wait until %v, modified at %d", e.ID, e.JobID, e.TriggeredBy, e.Status,
			e.StatusDescription, e.WaitUntil, e.ModifyIndex)
	}
	for id, d := range v.deployments {
		if d != nil {
			t.Logf("deployment of %s v%d: %s (%s), %+v", id, d.JobVersion, d.Status, d.StatusDescription, *d.TaskGroups["g"])
		}
	}
	for _, n := range v.nodes {
		t.Logf("node %s %s: %s %s, drains: %t", n.Name, n.ID, n.Status, n.SchedulingEligibility, n.Drain)
	}
	for _, c := range v.claims {
		t.Logf("claim of %s on volume %s, by %s", c.JobID, c.VolumeID, c.AllocID)
	}
	for id, vol := range v.volumes {
		t.Logf("volume %s on %s: %s", id, w.nodeName(vol.NodeID), vol.State)
	}
	for id, m := range v.machines {
		t.Logf("machine %s: processes %v, %d links, things %v", w.nodeName(id), m.processes, m.links, m.kept)
	}
}
