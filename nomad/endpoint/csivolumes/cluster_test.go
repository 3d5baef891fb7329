package csivolumes_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// newServers starts three servers and a node that is connected to the server that at selects.
func newServers(t *testing.T, at func(leader servertest.Member, followers []servertest.Member) servertest.Member) (c *cluster,
	all []servertest.Member, leader servertest.Member, followers []servertest.Member) {
	t.Helper()
	all = servertest.Cluster(t, 3, nil)
	leader, followers = servertest.Split(t, all)
	servertest.Register(t, leader.Server, plugin())
	c = &cluster{T: t, s: leader, st: newStorage(t)}
	c.n = c.st.join(at(leader, followers).RPCAddr(), "i-1")
	c.connected()
	return c, all, leader, followers
}

func theLeader(leader servertest.Member, _ []servertest.Member) servertest.Member { return leader }
func aFollower(_ servertest.Member, followers []servertest.Member) servertest.Member {
	return followers[0]
}

// The node is connected to another server than the leader, which relays all calls. It gets no token of the servers.
func TestCluster_NodeOfAnotherServer(t *testing.T) {
	c, _, _, followers := newServers(t, aFollower)
	if _, err := c.create(volume("db", func(v *csi.Volume) { v.RequestedCapacityMin = 1 })); err != nil {
		t.Fatal(err)
	}
	a := c.place(using("j", "db"))
	if _, err := c.n.claim(a, "db", csi.ClaimWrite); err != nil {
		t.Fatal(err)
	}
	if _, err := c.registered(volume("db", func(v *csi.Volume) { v.RequestedCapacityMin = 9 })); err != nil {
		t.Fatal(err)
	}
	snapshot := &csi.Snapshot{SourceVolumeID: "db", Name: "s"}
	if err := c.call("", "CSIVolume.CreateSnapshot", &message.CSISnapshotCreateRequest{Snapshots: []*csi.Snapshot{snapshot}},
		&message.CSISnapshotCreateResponse{}); err != nil {
		t.Fatal(err)
	}
	remove := &csi.Snapshot{ID: "snap-s", PluginID: "ebs"}
	if err := c.call("", "CSIVolume.DeleteSnapshot", &message.CSISnapshotDeleteRequest{Snapshots: []*csi.Snapshot{remove}}, nil); err != nil {
		t.Fatal(err)
	}
	if err := c.call("", "CSIVolume.ListSnapshots", &message.CSISnapshotListRequest{PluginID: "ebs"},
		&message.CSISnapshotListResponse{}); err != nil {
		t.Fatal(err)
	}
	c.n.Report(nomad.AllocClientStatusComplete, a)
	servertest.Eventually(t, func() bool { return len(c.get("db").WriteAllocs) == 0 })
	wantError(t, "delete", c.remove("db"), "")
	servertest.Equal(t, "calls", c.st.took(), "CreateVolume db, AttachVolume vol-db i-1, ValidateVolume vol-db, ExpandVolume vol-db 9-0, "+
		"NodeExpandVolume db "+a.ID+", CreateSnapshot vol-db s, DeleteSnapshot snap-s, ListSnapshots 0, NodeDetachVolume db, "+
		"DetachVolume vol-db i-1, DeleteVolume vol-db")
	servertest.Equal(t, "calls with a token of a server", c.st.tokens, 0)

	// Servers of Nomad relay a call to the server of a node that they chose, or of none.
	var out message.ClientCSIControllerListVolumesResponse
	req := &message.ClientCSIControllerListVolumesRequest{CSIControllerQuery: message.CSIControllerQuery{PluginID: "ebs"}}
	req.Region = "global"
	if err := followers[0].Call(servertest.Context(t), "ClientCSI.ControllerListVolumes", req, &out); err != nil || out.NextToken != "next" {
		t.Errorf("relay without a node: %v, %v", out, err)
	}
}

// A leader that is replaced while the plugin creates a volume cannot register it. Its error names the external volume, and the
// same request to the next leader registers it.
func TestCluster_LeaderLostInCreate(t *testing.T) {
	c, all, _, followers := newServers(t, theLeader)
	c.st.do(func() {
		c.st.before = func(method string) error {
			if method == "CreateVolume" {
				servertest.TransferLeadership(t, all, followers[0])
			}
			return nil
		}
	})
	var out message.CSIVolumeCreateResponse
	req := &message.CSIVolumeCreateRequest{Volumes: []*csi.Volume{volume("db")}, WriteRequest: message.WriteRequest{Region: "global"}}
	err := c.s.Call(servertest.Context(t), "CSIVolume.Create", req, &out)
	for _, text := range []string{`plugin "ebs" created the external volume "vol-db"`, "repeat the command", "'nomad volume register'"} {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("create: %v, want %q", err, text)
		}
	}
	if c.get("db") != nil {
		t.Error("a leader that was replaced registered the volume")
	}
	c.st.do(func() { c.st.before = nil })
	c.s = followers[0]
	if _, err := c.create(volume("db")); err != nil || c.get("db").ExternalID != "vol-db" {
		t.Errorf("create at the next leader: %v", err)
	}
}

// A leader that is replaced while the plugin deletes a volume cannot remove the record. Its error has the command that does.
func TestCluster_LeaderLostInDelete(t *testing.T) {
	c, all, _, followers := newServers(t, theLeader)
	if _, err := c.create(volume("my db")); err != nil {
		t.Fatal(err)
	}
	c.st.do(func() {
		c.st.before = func(method string) error {
			if method == "DeleteVolume" {
				servertest.TransferLeadership(t, all, followers[0])
			}
			return nil
		}
	})
	req := &message.CSIVolumeDeleteRequest{VolumeIDs: []string{"my db"}, WriteRequest: message.WriteRequest{Region: "global"}}
	err := c.s.Call(servertest.Context(t), "CSIVolume.Delete", req, nil)
	wantError(t, "delete", err, `deleted the external volume "vol-my db", but volume "my db" is still registered: `+
		`remove the record with nomad volume deregister 'my db'`)
	c.s = followers[0]
	wantError(t, "deregister", c.deregister(false, "my db"), "")
}

// The claim of an allocation survives a leader that is replaced while the controller attaches the volume. The node repeats the
// call, and the next leader releases the claim.
func TestCluster_LeaderLostInClaim(t *testing.T) {
	c, all, leader, followers := newServers(t, aFollower)
	if _, err := c.create(volume("db")); err != nil {
		t.Fatal(err)
	}
	a := c.place(using("j", "db"))
	c.st.do(func() {
		c.st.before = func(method string) error {
			if method == "AttachVolume" {
				servertest.TransferLeadership(t, all, followers[0])
				return errors.New("interrupted")
			}
			return nil
		}
	})
	_, err := c.n.claim(a, "db", csi.ClaimWrite)
	wantError(t, "claim", err, "interrupted")
	c.st.do(func() { c.st.before = nil })
	c.s = followers[0]
	servertest.Eventually(t, func() bool { _, claimed := c.get("db").WriteAllocs[a.ID]; return claimed })
	if out, err := c.n.claim(a, "db", csi.ClaimWrite); err != nil || out.PublishContext["device"] == "" {
		t.Errorf("claim at the next leader: %v", err)
	}
	c.n.Report(nomad.AllocClientStatusComplete, a)
	servertest.TransferLeadership(t, all, leader)
	c.s = leader
	servertest.Eventually(t, func() bool { return len(c.get("db").WriteAllocs) == 0 })
}

// Operations on one volume wait for each other, also those on another record of it. Those on other volumes do not.
func TestCluster_HangingCall(t *testing.T) {
	c := newCluster(t)
	for _, id := range []string{"slow", "fast"} {
		if _, err := c.create(volume(id)); err != nil {
			t.Fatal(err)
		}
	}
	hanging, release := make(chan bool), make(chan bool)
	c.st.do(func() {
		c.st.before = func(method string) error {
			if method == "DeleteVolume" {
				hanging <- true
				<-release
			}
			return nil
		}
	})
	deleted, updated := make(chan error, 1), make(chan error, 2)
	go func() { deleted <- c.remove("slow") }()
	<-hanging
	for _, id := range []string{"slow", "copy"} {
		go func() {
			_, err := c.registered(volume(id, func(v *csi.Volume) { v.ExternalID = "vol-slow" }))
			updated <- err
		}()
	}
	a := c.place(using("j", "fast"))
	if _, err := c.n.claim(a, "fast", csi.ClaimWrite); err != nil {
		t.Errorf("claim of another volume during a hanging call: %v", err)
	}
	select {
	case err := <-updated:
		t.Errorf("the volume was updated while it was being deleted: %v", err)
	default:
	}
	close(release)
	if err := errors.Join(<-deleted, <-updated, <-updated); err != nil {
		t.Error(err)
	}
	if c.get("slow") == nil || c.get("copy") == nil {
		t.Error("the later requests did not register the volume again")
	}
}
