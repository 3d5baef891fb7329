package csivolumes

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/fsm/testlog"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// Each state of a stuck claim has its reason, and the command that ends the wait or shows more.
func TestReleases(t *testing.T) {
	type world struct {
		node   *nomad.Node // nil for a deleted one
		plugin bool        // its job exists
		claim  csi.Claim   // in PastClaims
	}
	healthy := map[string]*nomad.CSIInfo{"ebs": {PluginID: "ebs", Healthy: true}}
	unpublishing, detached := csi.Claim{State: csi.ClaimUnpublishing}, csi.Claim{State: csi.ClaimNodeDetached}
	for name, c := range map[string]struct {
		world
		waits, command string
	}{
		"no plugin": {world{&nomad.Node{Status: nomad.NodeStatusReady}, false, unpublishing},
			`plugin "ebs" does not exist: run its job again, or remove the volume`, "nomad volume deregister -force -namespace=prod 'my db'"},
		"node lost": {world{nil, true, unpublishing},
			"the node is lost: the volume is about to be released without it", "nomad volume detach -namespace=prod 'my db' n1"},
		"node down": {world{&nomad.Node{Status: nomad.NodeStatusDown}, true, unpublishing},
			"the node is lost: the volume is about to be released without it", "nomad volume detach -namespace=prod 'my db' n1"},
		"node disconnected": {world{&nomad.Node{Status: nomad.NodeStatusDisconnected}, true, unpublishing},
			"the node is disconnected: it must connect again, or be down", "nomad node status n1"},
		"no plugin on the node": {world{&nomad.Node{Status: nomad.NodeStatusReady}, true, unpublishing},
			`plugin "ebs" is not healthy on the node`, "nomad plugin status ebs"},
		"node": {world{&nomad.Node{Status: nomad.NodeStatusReady, CSINodePlugins: healthy}, true, unpublishing},
			"the node is about to unmount the volume", "nomad volume detach -namespace=prod 'my db' n1"},
		"controller": {world{&nomad.Node{Status: nomad.NodeStatusReady}, true, detached},
			"the controller is about to detach the volume from the node", "nomad volume detach -namespace=prod 'my db' n1"},
		"a recorded reason": {world{&nomad.Node{Status: nomad.NodeStatusReady}, true, csi.Claim{State: csi.ClaimNodeDetached, Waits: "busy"}},
			"busy", "nomad volume detach -namespace=prod 'my db' n1"},
	} {
		t.Run(name, func(t *testing.T) {
			log := testlog.New(nil)
			log.Must(t, message.NamespaceUpsertRequestType, &message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{{Name: "prod"}}})
			if n := c.node; n != nil {
				log.Node(t, func(to *nomad.Node) { to.ID, to.Status, to.CSINodePlugins = "n1", n.Status, n.CSINodePlugins })
			}
			if c.plugin {
				log.Job(t, nomad.JobTypeSystem, 1, func(j *nomad.Job) {
					j.TaskGroups[0].Tasks[0].CSIPluginConfig = &nomad.TaskCSIPluginConfig{ID: "ebs", Type: csi.PluginMonolith}
				})
			}
			past := c.claim
			past.AllocationID, past.NodeID, past.Since = "a1", "n1", 5
			v := &csi.Volume{ID: "my db", Namespace: "prod", PluginID: "ebs", PastClaims: map[string]*csi.Claim{"a1": &past},
				WriteClaims: map[string]*csi.Claim{"a1": {AllocationID: "a1", NodeID: "n1"}}}
			got := releases(log.Snapshot(), v)
			want := csi.Release{AllocID: "a1", NodeID: "n1", State: c.claim.State.String(), Since: time.Unix(0, 5), Waits: c.waits,
				Command: c.command}
			if len(got) != 1 || *got[0] != want {
				t.Errorf("releases() = %+v, want %+v", got[0], want)
			}
		})
	}
}

// A plugin that needs a controller and has no healthy one is the reason, whatever the claim has recorded as its own.
func TestReleases_Controller(t *testing.T) {
	log := testlog.New(nil)
	n := log.Node(t)
	j := log.Job(t, nomad.JobTypeSystem, 1, func(j *nomad.Job) {
		j.TaskGroups[0].Tasks[0].CSIPluginConfig = &nomad.TaskCSIPluginConfig{ID: "ebs", Type: csi.PluginMonolith}
	})
	a := log.Alloc(t, j, n)
	info := &nomad.CSIInfo{PluginID: "ebs", AllocID: a.ID, Healthy: true, RequiresControllerPlugin: true}
	report := func(healthy bool) {
		again, reported := *n, *info
		reported.Healthy = healthy
		again.CSIControllerPlugins = map[string]*nomad.CSIInfo{"ebs": &reported}
		log.Must(t, message.NodeRegisterRequestType, &message.NodeRegisterRequest{Node: &again})
	}
	report(true)
	report(false)
	v := &csi.Volume{ID: "db", Namespace: "default", PluginID: "ebs",
		PastClaims: map[string]*csi.Claim{"a1": {AllocationID: "a1", NodeID: n.ID, State: csi.ClaimNodeDetached}}}
	got := releases(log.Snapshot(), v)
	if len(got) != 1 || got[0].Waits != `no controller of plugin "ebs" is healthy` || got[0].Command != "nomad plugin status ebs" {
		t.Errorf("releases() = %+v", got[0])
	}
}

// An ended allocation whose claim is not being released yet is listed too, since it has ended.
func TestReleases_Ended(t *testing.T) {
	log := testlog.New(nil)
	n, j := log.Node(t), log.Job(t, nomad.JobTypeBatch, 1)
	ended := log.Alloc(t, j, n, func(a *nomad.Allocation) { a.ClientStatus, a.ModifyTime = nomad.AllocClientStatusComplete, 7 })
	running := log.Alloc(t, j, n, func(a *nomad.Allocation) { a.ClientStatus = nomad.AllocClientStatusRunning })
	v := &csi.Volume{ID: "db", Namespace: "default", PluginID: "ebs", ReadClaims: map[string]*csi.Claim{
		ended.ID: {AllocationID: ended.ID}, running.ID: {AllocationID: running.ID}}}
	got := releases(log.Snapshot(), v)
	if len(got) != 1 || got[0].AllocID != ended.ID || got[0].NodeID != n.ID || got[0].State != "unpublishing" ||
		got[0].Since != time.Unix(0, 7) {
		t.Errorf("releases() = %+v", got)
	}
}

func TestCommand(t *testing.T) {
	for want, got := range map[string]string{
		"nomad volume status db":                   command("volume status", "default", "db"),
		"nomad volume status -namespace=a db":      command("volume status", "a", "db"),
		"nomad volume status 'db[0]'":              command("volume status", "", "db[0]"),
		"nomad volume status 'a; rm -rf $HOME'":    command("volume status", "", "a; rm -rf $HOME"),
		`nomad volume status 'it'\''s'`:            command("volume status", "", "it's"),
		"nomad volume detach '' n":                 command("volume detach", "", "", "n"),
		"nomad volume detach -namespace='a b' v n": command("volume detach", "a b", "v", "n"),
	} {
		if got != want {
			t.Errorf("command() = %s, want %s", got, want)
		}
	}
}
