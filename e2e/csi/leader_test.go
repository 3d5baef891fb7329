package csi_test

import (
	"path/filepath"
	"testing"

	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// TestLeaderKilled kills the leader of three servers while a call of the plugin hangs, at each step of a claim and of its release,
// before and after the call was done. The next leader continues: the task runs, or the claim is freed.
func TestLeaderKilled(t *testing.T) {
	t.Parallel()
	harness.NeedsRoot(t)
	servers := harness.StartServersWith(t, func(o *cluster.Options) {
		cfg := filepath.Join(filepath.Dir(o.Dir), "servers.hcl")
		harness.WriteFile(t, cfg, harness.QuickHeartbeats)
		o.Args = append(o.Args, "-config="+cfg)
	})
	r := rigOf(t, &harness.Fleet{T: t, Server: servers.All[0], Dir: harness.TempDir(t), Lean: true}, options{})
	r.join("a", "") // it learns the other servers from the first
	r.runPlugin("1")
	kill := func() {
		t.Helper()
		lead := servers.Agreed()
		if err := servers.All[lead].Kill(); err != nil {
			t.Fatal(err)
		}
		r.Server = servers.All[(lead+1)%3]
		harness.Within(t, harness.Patience, "another leader", func() bool {
			now := servers.Leader(r.Server)
			return now >= 0 && now != lead
		})
		servers.All[lead] = harness.Restart(t, servers.All[lead])
		r.purgeAtEnd()
	}
	for _, call := range []string{"ControllerPublishVolume", "NodePublishVolume", "NodeUnpublishVolume", "ControllerUnpublishVolume"} {
		for _, fault := range []string{"hang", "hang-after"} {
			t.Run(call+" "+fault, func(t *testing.T) {
				r.t, r.T = t, t
				defer func() { r.t, r.T = r.owner, r.owner }()
				r.create(volume("data"))
				r.fault(call + " " + fault)
				r.run(user{id: r.unique("writer"), source: "data", script: writes})
				releases := call == "NodeUnpublishVolume" || call == "ControllerUnpublishVolume"
				if releases {
					r.begun(r.latest, 1)
					harness.Stop(t, r.Server, r.latest)
				}
				r.arrived(call)
				kill()
				r.fault()
				if !releases {
					r.begun(r.latest, 1)
					harness.Stop(t, r.Server, r.latest)
				}
				r.content("data", "begin\nend\n")
				r.delete("data")
				r.noMounts("a")
			})
		}
	}
}
