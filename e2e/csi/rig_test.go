package csi_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// pluginID is the ID of the plugin of a rig.
const pluginID = "example"

// rig is a server with clients that run the plugin.
type rig struct {
	*harness.Fleet
	t       *testing.T // of the running test
	owner   *testing.T // of the rig: agents end with it
	program string
	nodes   map[string]*cluster.Agent // by name
	flags   string                    // further flags of the plugin
	purged  bool
	serial  int    // of the jobs
	latest  string // the last ID of a job
}

// options are the settings of a rig.
type options struct {
	server string // configuration
	client string // configuration of each client
	flags  string // of the plugin, quoted and each after a comma
	nodes  []string
}

// newRig starts a rig, and waits until the plugin is healthy on all nodes.
func newRig(t *testing.T, o options) *rig {
	t.Helper()
	r := prepare(t, o)
	for _, name := range o.nodes {
		r.join(name, o.client)
	}
	r.runPlugin("1")
	return r
}

// prepare starts the server of a rig.
func prepare(t *testing.T, o options) *rig {
	t.Helper()
	harness.NeedsRoot(t)
	return rigOf(t, harness.NewFleet(t, cmp.Or(o.server, harness.QuickHeartbeats)), o)
}

// rigOf returns a rig without nodes.
func rigOf(t *testing.T, f *harness.Fleet, o options) *rig {
	t.Helper()
	program, err := built()
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, owner: t, nodes: map[string]*cluster.Agent{}, flags: o.flags, Fleet: f}
	harness.Passable(t, r.Dir)
	t.Cleanup(func() {
		for node := range r.nodes {
			harness.UnshareCSI(t, filepath.Join(r.Dir, node))
		}
	})
	harness.Mkdir(t, r.storage())
	r.program = filepath.Join(r.Dir, "examplecsi")
	if err := os.WriteFile(r.program, program, 0o755); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) storage() string { return filepath.Join(r.Dir, "storage") }
func (r *rig) faults() string  { return filepath.Join(r.Dir, "faults") }

// state returns a path below <state dir>/csi of a node.
func (r *rig) state(node string, parts ...string) string {
	return filepath.Join(append([]string{r.Dir, node, "data", "client", "csi"}, parts...)...)
}

// join starts a client. All its jobs are purged before it ends.
func (r *rig) join(name, config string) {
	r.t.Helper()
	r.nodes[name] = r.Join(name, "client {\n network_interface = \"lo\"\n options {\n  \"user.denylist\" = \"\"\n }\n}\n"+config)
	r.purgeAtEnd()
}

func (r *rig) purgeAtEnd() {
	r.owner.Cleanup(func() {
		if !r.purged {
			r.purged, r.t, r.T = true, r.owner, r.owner
			r.end()
		}
	})
}

// end stops the jobs that use volumes, deletes the volumes, and checks that nothing is left.
func (r *rig) end() {
	r.fault()
	jobs, _, err := r.Server.Client.Jobs().List(nil)
	if err != nil {
		r.t.Error(err)
		return
	}
	for _, j := range jobs {
		if j.ID != "storage" {
			harness.Stop(r.t, r.Server, j.ID)
		}
	}
	for _, v := range r.volumes() {
		r.delete(v.ID)
	}
	for name := range r.nodes {
		r.noMounts(name)
	}
	harness.PurgeAll(r.t, r.Server)
}

// plugin returns the job of the plugin.
func (r *rig) plugin(version string) string {
	return fmt.Sprintf(`job "storage" {
  type = "system"
  group "g" {
    update {
      max_parallel     = 1
      min_healthy_time = "100ms"
    }
    restart {
      attempts = 100
      delay    = "100ms"
      interval = "1m"
      mode     = "delay"
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = %q
        args    = ["-root", %q, "-faults", %q, "-node", "${node.unique.name}"%s]
      }
      env {
        VERSION = %q
      }
      csi_plugin {
        id             = %q
        type           = "monolith"
        health_timeout = "2m"
      }
      resources {
        cpu    = 20
        memory = 64
      }
    }
  }
}
`, r.program, r.storage(), r.faults(), r.flags, version, pluginID)
}

// runPlugin runs a version of the plugin on all nodes, and waits until all instances are healthy.
func (r *rig) runPlugin(version string) {
	r.t.Helper()
	harness.Run(r.t, r.Server, r.plugin(version))
	r.healthy(len(r.nodes))
}

// healthy waits until n instances of the plugin are healthy.
func (r *rig) healthy(n int) {
	r.t.Helper()
	harness.Within(r.t, 2*harness.Patience, fmt.Sprintf("the plugin is healthy on %d nodes", n), func() bool {
		p, _, err := r.Server.Client.CSIPlugins().Info(pluginID, nil)
		return err == nil && p.NodesHealthy == n && p.ControllersHealthy == n
	})
}

// fault writes the faults of the plugins, see e2e/examplecsi. Without any, they work.
func (r *rig) fault(lines ...string) {
	r.t.Helper()
	if err := os.RemoveAll(r.faults() + ".seen"); err != nil {
		r.t.Error(err)
	}
	next := r.faults() + ".next"
	harness.WriteFile(r.t, next, strings.Join(lines, "\n"))
	if err := os.Rename(next, r.faults()); err != nil {
		r.t.Error(err)
	}
}

// volume is a volume to create. Without a capability, one allocation may write.
func volume(id string, edit ...func(*api.CSIVolume)) *api.CSIVolume {
	v := &api.CSIVolume{ID: id, Name: id, Namespace: "default", PluginID: pluginID, RequestedCapabilities: []*api.CSIVolumeCapability{
		{AccessMode: api.CSIVolumeAccessModeSingleNodeWriter, AttachmentMode: api.CSIVolumeAttachmentModeFilesystem},
		{AccessMode: api.CSIVolumeAccessModeMultiNodeReader, AttachmentMode: api.CSIVolumeAttachmentModeFilesystem}}}
	for _, f := range edit {
		f(v)
	}
	return v
}

// create creates volumes.
func (r *rig) create(volumes ...*api.CSIVolume) {
	r.t.Helper()
	for _, v := range volumes {
		harness.Succeeds(r.t, "create volume "+v.ID, func() error {
			_, _, err := r.Server.Client.CSIVolumes().Create(v, nil)
			return err
		})
	}
}

// delete deletes a volume when its claims are free.
func (r *rig) delete(id string) {
	r.t.Helper()
	harness.Within(r.t, 2*harness.Patience, "the claims of "+id+" are free", func() bool {
		v, _, err := r.Server.Client.CSIVolumes().Info(id, nil)
		return err == nil && len(v.ReadAllocs)+len(v.WriteAllocs) == 0
	})
	harness.Succeeds(r.t, "delete volume "+id, func() error { return r.Server.Client.CSIVolumes().Delete(id, nil) })
}

func (r *rig) volumes() []*api.CSIVolumeListStub {
	r.t.Helper()
	all, _, err := r.Server.Client.CSIVolumes().List(nil)
	if err != nil {
		r.t.Error(err)
	}
	return all
}

// info returns a volume.
func (r *rig) info(id string) *api.CSIVolume {
	r.t.Helper()
	var out *api.CSIVolume
	harness.Succeeds(r.t, "volume "+id, func() (err error) {
		out, _, err = r.Server.Client.CSIVolumes().Info(id, nil)
		return err
	})
	return out
}

// free waits until a volume has no claim.
func (r *rig) free(id string) {
	r.t.Helper()
	var v *api.CSIVolume
	defer func() {
		if r.t.Failed() && v != nil {
			for _, rel := range v.Releases {
				r.t.Logf("%s: %+v", id, rel)
			}
		}
	}()
	harness.Within(r.t, 2*harness.Patience, "the claims of "+id+" are free", func() bool {
		v = r.info(id)
		return len(v.ReadAllocs)+len(v.WriteAllocs) == 0
	})
}

// mounts lists the mount points of volumes on a node.
func (r *rig) mounts(node string) (points []string) {
	r.t.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		r.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); strings.HasPrefix(f[4], r.state(node)+"/") {
			points = append(points, f[4])
		}
	}
	return points
}

// noMounts waits until a node has no volume.
func (r *rig) noMounts(node string) {
	r.t.Helper()
	var left []string
	defer func() {
		if len(left) > 0 {
			r.t.Logf("mounts of %s: %q", node, left)
		}
	}()
	harness.Within(r.t, harness.Patience, "no volume is mounted on "+node, func() bool { left = r.mounts(node); return len(left) == 0 })
}
