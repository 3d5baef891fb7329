package csivolumes_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// A right to write in one namespace does not delete what a volume of another namespace stores: several records may be of one volume
// of the storage system, and the last one is deleted with it.
func TestDelete_Duplicate(t *testing.T) {
	c := newCluster(t)
	c.call("", "Namespace.UpsertNamespaces", &message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{{Name: "a"}}}, nil)
	if _, err := c.create(volume("db")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.registered(volume("mine", func(v *csi.Volume) { v.Namespace, v.ExternalID = "a", "vol-db" })); err != nil {
		t.Fatal(err)
	}
	c.st.took()
	remove := func(ns, id string) error {
		return c.call(ns, "CSIVolume.Delete", &message.CSIVolumeDeleteRequest{VolumeIDs: []string{id}}, &message.CSIVolumeDeleteResponse{})
	}
	wantError(t, "delete", remove("a", "mine"), "volume in use: mine: another volume, maybe of another namespace, is registered with the "+
		`same external ID "vol-db": remove the other record first, or only this one with nomad volume deregister -namespace=a mine`)
	servertest.Equal(t, "calls", c.st.took(), "")
	if err := c.call("a", "CSIVolume.Deregister", &message.CSIVolumeDeregisterRequest{VolumeIDs: []string{"mine"}},
		&message.CSIVolumeDeregisterResponse{}); err != nil {
		t.Fatal(err)
	}
	if err := remove("", "db"); err != nil {
		t.Fatal(err)
	}
	servertest.Equal(t, "calls", c.st.took(), "DeleteVolume vol-db")
}

// While a volume is deleted, no allocation is placed that would claim it. If that fails, the job is placed after all.
func TestDelete_Withheld(t *testing.T) {
	c := newCluster(t)
	if _, err := c.create(volume("db")); err != nil {
		t.Fatal(err)
	}
	deleting, fail := make(chan bool), make(chan bool)
	c.st.do(func() {
		c.st.before = func(method string) error {
			if method == "DeleteVolume" {
				deleting <- true
				<-fail
				return errors.New("rpc error: code = Internal desc = busy")
			}
			return nil
		}
	})
	deleted := make(chan error, 1)
	go func() { deleted <- c.remove("db") }()
	<-deleting
	if err := c.call("", "Job.Register", &message.JobRegisterRequest{Job: using("j", "db")}, &message.JobRegisterResponse{}); err != nil {
		t.Fatal(err)
	}
	servertest.Eventually(t, func() bool { // placed or blocked
		var evals message.JobEvaluationsResponse
		if err := c.call("", "Job.Evaluations", &message.JobSpecificRequest{JobID: "j"}, &evals); err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(evals.Evaluations, func(e *nomad.Evaluation) bool {
			return e.Status == nomad.EvalStatusBlocked || e.Status == nomad.EvalStatusComplete
		})
	})
	for _, a := range c.n.Allocs(1) {
		if a.JobID == "j" {
			t.Error("an allocation was placed that uses the volume")
		}
	}
	close(fail)
	wantError(t, "delete", <-deleted, "busy")
	c.n.alloc("j")
}

// A repeated claim is not answered without an attachment because the controllers are gone: the node would mount a volume that is
// not attached. The error is one that nodes retry.
func TestClaim_ControllersGone(t *testing.T) {
	c := newCluster(t)
	if _, err := c.create(volume("db")); err != nil {
		t.Fatal(err)
	}
	a := c.place(using("j", "db"))
	c.st.fails("AttachVolume", "busy")
	_, err := c.n.claim(a, "db", csi.ClaimWrite)
	wantError(t, "claim", err, "busy")
	c.st.fails("", "")
	controllers := c.n.Node.CSIControllerPlugins
	c.n.Node.CSIControllerPlugins = nil
	c.n.register()
	out, err := c.n.claim(a, "db", csi.ClaimWrite)
	wantError(t, "claim without controllers", err,
		`controller publish: CSI client error (retryable): no controller of plugin "ebs" is healthy`)
	if out.Volume != nil {
		t.Error("the node got the volume")
	}
	c.n.Node.CSIControllerPlugins = controllers
	c.n.register()
	c.connected()
	if out, err = c.n.claim(a, "db", csi.ClaimWrite); err != nil || out.PublishContext["device"] != "/dev/vol-db" {
		t.Errorf("claim with a controller: %v, %v", out.PublishContext, err)
	}
}
