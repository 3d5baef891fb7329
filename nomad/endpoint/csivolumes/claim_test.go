package csivolumes_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// A node claims only what an allocation of its own requests, in the modes of the request. Refused claims do not reach the plugin.
func TestClaim_Refused(t *testing.T) {
	c := newCluster(t)
	for _, id := range []string{"db", "other"} {
		if _, err := c.create(volume(id)); err != nil {
			t.Fatal(err)
		}
	}
	c.call("", "Namespace.UpsertNamespaces", &message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{{Name: "a"}}}, nil)
	a := c.place(using("j", "db"))
	stranger := c.st.join(c.n.Addr, "i-2")
	c.st.took()
	for name, r := range map[string]struct {
		node *csiNode
		edit func(*message.CSIVolumeClaimRequest)
		want string
	}{
		"another node": {stranger, func(*message.CSIVolumeClaimRequest) {}, "Permission denied"},
		"its allocation": {stranger, func(r *message.CSIVolumeClaimRequest) { r.AllocationID = stranger.alloc("ebs").ID },
			"does not request volume"},
		"no token":      {c.n, func(r *message.CSIVolumeClaimRequest) { r.AuthToken = "" }, "Permission denied"},
		"no allocation": {c.n, func(r *message.CSIVolumeClaimRequest) { r.AllocationID = "" }, "Missing allocation ID"},
		"unknown": {c.n, func(r *message.CSIVolumeClaimRequest) { r.AllocationID = nomad.NewID() },
			"failed to claim volume \"db\": allocation missing: "},
		"no volume":         {c.n, func(r *message.CSIVolumeClaimRequest) { r.VolumeID = "" }, "missing volume ID"},
		"another volume":    {c.n, func(r *message.CSIVolumeClaimRequest) { r.VolumeID = "other" }, `does not request volume "other"`},
		"another namespace": {c.n, func(r *message.CSIVolumeClaimRequest) { r.Namespace = "a" }, "does not request volume"},
		"reading":           {c.n, func(r *message.CSIVolumeClaimRequest) { r.Claim = csi.ClaimRead }, "does not request volume"},
		"collection":        {c.n, func(r *message.CSIVolumeClaimRequest) { r.Claim = csi.ClaimGC }, "does not request volume"},
		"access mode": {c.n, func(r *message.CSIVolumeClaimRequest) { r.AccessMode = nomad.VolumeMultiNodeMultiWriter },
			"does not request volume"},
		"attachment": {c.n, func(r *message.CSIVolumeClaimRequest) { r.AttachmentMode = nomad.VolumeAttachBlockDevice },
			"does not request volume"},
	} {
		req := &message.CSIVolumeClaimRequest{VolumeID: "db", AllocationID: a.ID, NodeID: r.node.Node.ID, Claim: csi.ClaimWrite,
			AccessMode: nomad.VolumeSingleNodeWriter, AttachmentMode: nomad.VolumeAttachFilesystem, WriteRequest: r.node.Write(r.node.JWT)}
		r.edit(req)
		var out message.CSIVolumeClaimResponse
		err := r.node.Call("CSIVolume.Claim", req, &out)
		wantError(t, name, err, r.want)
		if out.Volume != nil || len(c.get("db").WriteAllocs)+len(c.get("other").WriteAllocs) != 0 {
			t.Errorf("%s: the volume is claimed", name)
		}
	}
	servertest.Equal(t, "calls", c.st.took(), "")
	c.n.Report(nomad.AllocClientStatusComplete, a)
	_, err := c.n.claim(a, "db", csi.ClaimWrite)
	wantError(t, "an ended allocation", err, "the allocation has ended")
}

// A node that was lost may return with an allocation that has a replacement by now. Its claim would come before that of the
// replacement, and both would write.
func TestClaim_Stopped(t *testing.T) {
	c := newCluster(t)
	if _, err := c.create(volume("db")); err != nil {
		t.Fatal(err)
	}
	a := c.place(using("j", "db"))
	c.st.took()
	if err := c.call("", "Job.Deregister", &message.JobDeregisterRequest{JobID: "j"}, &message.JobDeregisterResponse{}); err != nil {
		t.Fatal(err)
	}
	servertest.Eventually(t, func() bool { return c.n.alloc("j").ServerTerminalStatus() })
	_, err := c.n.claim(a, "db", csi.ClaimWrite)
	wantError(t, "a stopped allocation", err, `failed to claim volume "db": the allocation is to be stopped`)
	servertest.Equal(t, "calls", c.st.took(), "")
	if c.get("db").InUse() || len(c.get("db").WriteAllocs) != 0 {
		t.Error("the volume is claimed")
	}
}

// A claim may be repeated. It remains if the volume cannot be attached, and the next call attaches it.
func TestClaim_Repeated(t *testing.T) {
	c := newCluster(t)
	if _, err := c.create(volume("db")); err != nil {
		t.Fatal(err)
	}
	a := c.place(using("j", "db"))
	c.st.took()
	c.st.fails("AttachVolume", "busy")
	_, err := c.n.claim(a, "db", csi.ClaimWrite)
	wantError(t, "claim", err, "controller publish: controller attach volume: rpc error: code = Internal desc = busy")
	if _, ok := c.get("db").WriteAllocs[a.ID]; !ok {
		t.Error("the claim did not remain")
	}
	c.st.fails("", "")
	for range 2 {
		out, err := c.n.claim(a, "db", csi.ClaimWrite)
		if err != nil || out.PublishContext["device"] != "/dev/vol-db" || out.Index == 0 {
			t.Errorf("claim: %v, %v", out.PublishContext, err)
		}
	}
	servertest.Equal(t, "calls", c.st.took(), "AttachVolume vol-db i-1, AttachVolume vol-db i-1, AttachVolume vol-db i-1")
	// The scheduler places no second writer of another job. The node of such an allocation would get the error that it retries.
	entry := &message.CSIVolumeClaimRequest{VolumeID: "db", AllocationID: c.n.alloc("ebs").ID, Claim: csi.ClaimWrite,
		WriteRequest: message.WriteRequest{Namespace: "default"}}
	err = c.s.(interface {
		Apply(context.Context, message.CommandType, any) error
	}).Apply(servertest.Context(t), message.CSIVolumeClaimRequestType, entry)
	if !errors.Is(err, csi.ErrMaxClaims) || !strings.Contains(err.Error(), `failed to claim volume "db": volume max claims reached`) {
		t.Errorf("a second writer: %v", err)
	}
}

// A plugin without a controller needs no attachment.
func TestClaim_NodePlugin(t *testing.T) {
	c := newCluster(t)
	c.n.set(func(i *nomad.CSIInfo) { i.RequiresControllerPlugin = false })
	if _, err := c.registered(volume("db")); err != nil {
		t.Fatal(err)
	}
	a := c.place(using("j", "db"))
	out, err := c.n.claim(a, "db", csi.ClaimWrite)
	if err != nil || out.PublishContext != nil || out.Volume.Secrets["password"] != secret {
		t.Errorf("claim: %v, %v", out.PublishContext, err)
	}
	servertest.Equal(t, "calls", c.st.took(), "")
}

// A node ends the claims of its own allocations only. A volume or claim that does not exist is released already.
func TestUnpublish_Node(t *testing.T) {
	c := newCluster(t)
	if _, err := c.create(volume("db")); err != nil {
		t.Fatal(err)
	}
	a := c.place(using("j", "db"))
	if _, err := c.n.claim(a, "db", csi.ClaimWrite); err != nil {
		t.Fatal(err)
	}
	stranger := c.st.join(c.n.Addr, "i-2")
	if err := stranger.unpublish(a, "db", csi.ClaimNodeDetached); !errors.Is(err, apierror.ErrPermissionDenied) {
		t.Errorf("unpublish by another node: %v", err)
	}
	wantError(t, "no allocation", c.n.unpublish(&nomad.Allocation{Namespace: "default"}, "db", 0), "Missing allocation ID")
	wantError(t, "unknown volume", c.n.unpublish(a, "none", csi.ClaimNodeDetached), "")
	wantError(t, "unknown claim", c.n.unpublish(stranger.alloc("ebs"), "db", csi.ClaimNodeDetached), "")
	if len(c.get("db").WriteAllocs) != 1 {
		t.Fatal("the claim was released")
	}
	c.st.took()
	c.st.fails("DetachVolume", "busy with "+secret)
	wantError(t, "unpublish", c.n.unpublish(a, "db", csi.ClaimNodeDetached), "") // the leader continues
	v := c.get("db")
	if len(v.Releases) != 1 || len(v.WriteAllocs) != 1 {
		t.Fatalf("the volume has the releases %+v", v.Releases)
	}
	r := v.Releases[0]
	servertest.Equal(t, "State", r.State, "node-detached")
	servertest.Equal(t, "NodeID", r.NodeID, c.n.Node.ID)
	servertest.Equal(t, "Command", r.Command, "nomad volume detach db "+c.n.Node.ID)
	if !strings.Contains(r.Waits, "busy with [REDACTED]") || r.Since.IsZero() {
		t.Errorf("the release is %+v", r)
	}
	if strings.Contains(c.st.took(), "NodeDetachVolume") {
		t.Error("the node that unmounted the volume was called")
	}
	wantError(t, "deregister", c.deregister(false, "db"), "volume in use: db")
	c.st.fails("", "")
	// Also a node that reports only the end, as those of Nomad 2.0, authenticated by its secret.
	req := &message.CSIVolumeUnpublishRequest{VolumeID: "db", Claim: &csi.Claim{AllocationID: a.ID, State: csi.ClaimUnpublishing},
		WriteRequest: c.n.Write(c.n.Node.SecretID)}
	wantError(t, "unpublish again", c.n.Call("CSIVolume.Unpublish", req, nil), "")
	servertest.Eventually(t, func() bool { return len(c.get("db").WriteAllocs) == 0 })
}

// An operator releases the claims of ended allocations of a node. Running ones keep theirs.
func TestUnpublish_Detach(t *testing.T) {
	c := newCluster(t)
	made := volume("db")
	made.RequestedCapabilities[0].AccessMode = nomad.VolumeMultiNodeMultiWriter
	if _, err := c.create(made); err != nil {
		t.Fatal(err)
	}
	shared := func(r *nomad.VolumeRequest) { r.AccessMode = nomad.VolumeMultiNodeMultiWriter }
	a, b := c.place(using("a", "db", shared)), c.place(using("b", "db", shared))
	for _, alloc := range []*nomad.Allocation{a, b} {
		req := &message.CSIVolumeClaimRequest{VolumeID: "db", AllocationID: alloc.ID, Claim: csi.ClaimWrite,
			AccessMode: nomad.VolumeMultiNodeMultiWriter, AttachmentMode: nomad.VolumeAttachFilesystem, WriteRequest: c.n.Write(c.n.JWT)}
		if err := c.n.Call("CSIVolume.Claim", req, nil); err != nil {
			t.Fatal(err)
		}
	}
	detach := func(volume string, claim *csi.Claim) error {
		return c.call("", "CSIVolume.Unpublish", &message.CSIVolumeUnpublishRequest{VolumeID: volume, Claim: claim}, nil)
	}
	node := c.n.Node.ID
	wantError(t, "no volume", detach("none", &csi.Claim{NodeID: node}), "no such volume: none")
	wantError(t, "no claim", detach("db", nil), "missing claim")
	wantError(t, "no node", detach("db", &csi.Claim{}), "detach requires node ID")
	wantError(t, "another node", detach("db", &csi.Claim{NodeID: nomad.NewID()}), "")
	wantError(t, "running", detach("db", &csi.Claim{NodeID: node}), "have not ended and keep their claims")
	wantError(t, "running allocation", detach("db", &csi.Claim{AllocationID: a.ID}), "stop them first: "+a.ID)
	wantError(t, "collection", detach("db", &csi.Claim{Mode: csi.ClaimGC}), "")

	c.st.fails("NodeDetachVolume", "busy")
	c.n.Report(nomad.AllocClientStatusComplete, a)
	servertest.Eventually(t, func() bool { return len(c.get("db").Releases) == 1 })
	wantError(t, "the node fails", detach("db", &csi.Claim{NodeID: node}), "claim of allocation "+a.ID+": unmount on node")
	c.st.fails("", "")
	wantError(t, "detach", detach("db", &csi.Claim{NodeID: node}), "")
	v := c.get("db")
	if _, ok := v.WriteAllocs[b.ID]; !ok || len(v.WriteAllocs) != 1 || len(v.Releases) != 0 {
		t.Errorf("after the detachment the writers are %v", v.WriteAllocs)
	}
	c.st.do(func() {
		if !c.st.attached["vol-db"]["i-1"] {
			t.Error("the volume was detached from a node that uses it")
		}
	})
}
