package csivolumes_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// controlled is a cluster with ACLs, the namespaces a and b, and a volume "v" in each.
type controlled struct {
	*servertest.ACLServer
	st *storage
	n  *csiNode
}

func newControlled(t *testing.T) *controlled {
	t.Helper()
	g := servertest.StartACL(t, nil)
	g.Must("Job.Register", &message.JobRegisterRequest{Job: plugin()}, &message.JobRegisterResponse{})
	g.Must("Namespace.UpsertNamespaces", &message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{{Name: "a"}, {Name: "b"}}}, nil)
	c := &controlled{ACLServer: g, st: newStorage(t)}
	c.n = c.st.join(g.Server.RPCAddr(), "i-1")
	servertest.Eventually(t, func() bool {
		return g.Call(g.Root, "CSIVolume.ListExternal", &message.CSIVolumeExternalListRequest{PluginID: "ebs"},
			&message.CSIVolumeExternalListResponse{}) == nil
	})
	for _, ns := range []string{"a", "b"} {
		g.Must("CSIVolume.Create", &message.CSIVolumeCreateRequest{Volumes: []*csi.Volume{volume("v", func(v *csi.Volume) {
			v.Namespace, v.Name = ns, ns
		})}}, &message.CSIVolumeCreateResponse{})
	}
	c.st.took()
	return c
}

// in returns a request in a namespace.
func in(ns string, req rpc.Request) rpc.Request {
	switch r := req.(type) {
	case interface{ Write() *message.WriteRequest }:
		r.Write().Namespace = ns
	case interface{ Query() *message.QueryOptions }:
		r.Query().Namespace = ns
	}
	return req
}

// A right in one namespace does not create, change, read or delete in another, wherever the request names it.
func TestAccess_Namespaces(t *testing.T) {
	c := newControlled(t)
	ofA := c.TokenWith(`namespace "a" { capabilities = ["csi-write-volume", "csi-read-volume", "csi-mount-volume"] }
		plugin { policy = "read" }`)
	of := func(ns string) *csi.Volume { return volume("new", func(v *csi.Volume) { v.Namespace = ns }) }
	for name, r := range map[string]struct {
		req    rpc.Request
		denied bool
	}{
		"body b, request a":    {in("a", &message.CSIVolumeRegisterRequest{Volumes: []*csi.Volume{of("b")}}), true},
		"body b, no request":   {in("", &message.CSIVolumeRegisterRequest{Volumes: []*csi.Volume{of("b")}}), true},
		"one of two":           {in("a", &message.CSIVolumeRegisterRequest{Volumes: []*csi.Volume{of("a"), of("b")}}), true},
		"no body, request b":   {in("b", &message.CSIVolumeRegisterRequest{Volumes: []*csi.Volume{of("")}}), true},
		"no namespace":         {in("", &message.CSIVolumeRegisterRequest{Volumes: []*csi.Volume{of("")}}), true},
		"no volume, b":         {in("b", &message.CSIVolumeRegisterRequest{}), true},
		"create, body b":       {in("a", &message.CSIVolumeCreateRequest{Volumes: []*csi.Volume{of("b")}}), true},
		"delete in b":          {in("b", &message.CSIVolumeDeleteRequest{VolumeIDs: []string{"v"}}), true},
		"deregister in b":      {in("b", &message.CSIVolumeDeregisterRequest{VolumeIDs: []string{"v"}}), true},
		"get in b":             {in("b", &message.CSIVolumeGetRequest{ID: "v"}), true},
		"detach in b":          {in("b", &message.CSIVolumeUnpublishRequest{VolumeID: "v", Claim: &csi.Claim{NodeID: "n"}}), true},
		"snapshot in b":        {in("b", &message.CSISnapshotCreateRequest{Snapshots: []*csi.Snapshot{{SourceVolumeID: "v", Name: "s"}}}), true},
		"body a, request b":    {in("b", &message.CSIVolumeRegisterRequest{Volumes: []*csi.Volume{of("a")}}), false},
		"body a, no request":   {in("", &message.CSIVolumeCreateRequest{Volumes: []*csi.Volume{of("a")}}), false},
		"policies of Sentinel": {in("a", &message.CSIVolumeCreateRequest{Volumes: []*csi.Volume{of("a")}, PolicyOverride: true}), true},
	} {
		err := c.Call(ofA, methodOf(r.req), r.req, nil)
		if r.denied != errors.Is(err, apierror.ErrPermissionDenied) || !r.denied && err != nil {
			t.Errorf("%s: %v, want denied %t", name, err, r.denied)
		}
		if calls := c.st.took(); r.denied && calls != "" {
			t.Errorf("%s: the plugin was called: %s", name, calls)
		}
	}
	for v := range c.Server.State().Snapshot().CSIVolumesByNamespace(nil, "b") {
		if v.ID != "v" {
			t.Errorf("volume %s was created in b", v.ID)
		}
	}
	var out message.CSIVolumeListResponse
	if err := c.Call(ofA, "CSIVolume.List", in("*", &message.CSIVolumeListRequest{}), &out); err != nil || len(out.Volumes) != 2 {
		t.Errorf("list: %d volumes, %v; want v and new of a", len(out.Volumes), err)
	}
}

// methodOf returns the method of a request.
func methodOf(req rpc.Request) string {
	switch req.(type) {
	case *message.CSIVolumeRegisterRequest:
		return "CSIVolume.Register"
	case *message.CSIVolumeCreateRequest:
		return "CSIVolume.Create"
	case *message.CSIVolumeDeleteRequest:
		return "CSIVolume.Delete"
	case *message.CSIVolumeDeregisterRequest:
		return "CSIVolume.Deregister"
	case *message.CSIVolumeGetRequest:
		return "CSIVolume.Get"
	case *message.CSIVolumeListRequest:
		return "CSIVolume.List"
	case *message.CSIVolumeExternalListRequest:
		return "CSIVolume.ListExternal"
	case *message.CSIVolumeUnpublishRequest:
		return "CSIVolume.Unpublish"
	case *message.CSISnapshotCreateRequest:
		return "CSIVolume.CreateSnapshot"
	case *message.CSISnapshotDeleteRequest:
		return "CSIVolume.DeleteSnapshot"
	case *message.CSISnapshotListRequest:
		return "CSIVolume.ListSnapshots"
	case *message.CSIPluginListRequest:
		return "CSIPlugin.List"
	case *message.CSIPluginGetRequest:
		return "CSIPlugin.Get"
	case *message.CSIPluginDeleteRequest:
		return "CSIPlugin.Delete"
	case *message.CSIVolumeResealRequest:
		return "CSIVolume.Reseal"
	}
	panic(fmt.Sprintf("no method for %T", req))
}

// Each method needs the rights of the table, and no others suffice.
func TestAccess_Matrix(t *testing.T) {
	c := newControlled(t)
	ns := func(right string) string { return `namespace "a" { capabilities = ["` + right + `"] }` }
	secrets := map[string]string{
		"list": c.TokenWith(ns("csi-list-volume")), "read": c.TokenWith(ns("csi-read-volume")), "mount": c.TokenWith(ns("csi-mount-volume")),
		"write": c.TokenWith(ns("csi-write-volume")), "list-jobs": c.TokenWith(ns("list-jobs")), "read-job": c.TokenWith(ns("read-job")),
		"plugin":       c.TokenWith(`plugin { policy = "read" }`),
		"plugin-list":  c.TokenWith(`plugin { policy = "list" }`),
		"write+plugin": c.TokenWith(ns("csi-write-volume") + ` plugin { policy = "read" }`),
		"mount+plugin": c.TokenWith(ns("csi-mount-volume") + ` plugin { policy = "read" }`),
		"anonymous":    "", "root": c.Root,
	}
	const lists, writes = "list read mount list-jobs mount+plugin root", "write+plugin root"
	for _, r := range []struct {
		req rpc.Request
		may string
	}{
		{&message.CSIVolumeListRequest{}, lists},
		{&message.CSIVolumeExternalListRequest{PluginID: "ebs"}, lists},
		{&message.CSISnapshotListRequest{PluginID: "ebs"}, lists},
		{&message.CSIVolumeGetRequest{ID: "v"}, "read mount read-job mount+plugin root"},
		{&message.CSIVolumeRegisterRequest{Volumes: []*csi.Volume{volume("r")}}, writes},
		{&message.CSIVolumeCreateRequest{Volumes: []*csi.Volume{volume("c")}}, writes},
		{&message.CSIVolumeDeleteRequest{VolumeIDs: []string{"none"}}, writes},
		{&message.CSIVolumeDeregisterRequest{VolumeIDs: []string{"none"}}, "write write+plugin root"},
		{&message.CSISnapshotCreateRequest{Snapshots: []*csi.Snapshot{{}}}, writes},
		{&message.CSISnapshotDeleteRequest{Snapshots: []*csi.Snapshot{{}}}, writes},
		{&message.CSIVolumeUnpublishRequest{VolumeID: "v", Claim: &csi.Claim{NodeID: "n"}}, "mount+plugin root"},
		{&message.CSIPluginListRequest{}, "plugin plugin-list write+plugin mount+plugin root"},
		{&message.CSIPluginGetRequest{ID: "ebs"}, "plugin write+plugin mount+plugin root"},
		{&message.CSIPluginDeleteRequest{ID: "none"}, "root"},
		{&message.CSIVolumeResealRequest{VolumeID: "v"}, "root"},
	} {
		for who, token := range secrets {
			err := c.Call(token, methodOf(r.req), in("a", r.req), nil)
			if denied := errors.Is(err, apierror.ErrPermissionDenied); denied == slices.Contains(strings.Fields(r.may), who) {
				t.Errorf("%s calls %s: %v", who, methodOf(r.req), err)
			}
		}
	}
}

// Allocations are shown only to callers that may read jobs in their namespace.
func TestAccess_Allocations(t *testing.T) {
	c := newControlled(t)
	job := using("j", "v")
	job.Namespace = "a"
	c.Must("Job.Register", &message.JobRegisterRequest{Job: job}, &message.JobRegisterResponse{})
	a := c.n.alloc("j")
	if _, err := c.n.claim(a, "v", csi.ClaimWrite); err != nil {
		t.Fatal(err)
	}
	readsJobs := `namespace "a" { capabilities = ["read-job"] }` + "\n"
	for name, r := range map[string]struct {
		policy string
		ns     string // of CSIPlugin.Get
		volume int
		plugin int
	}{
		"volumes":      {`namespace "a" { capabilities = ["csi-read-volume"] } plugin { policy = "read" }`, "*", 0, 0},
		"jobs of a":    {readsJobs + `plugin { policy = "read" }`, "*", 1, 0},
		"all jobs":     {`namespace "*" { capabilities = ["read-job"] } plugin { policy = "read" }`, "*", 1, 1},
		"of default":   {`namespace "*" { capabilities = ["read-job"] } plugin { policy = "read" }`, "default", 1, 1},
		"of another":   {`namespace "*" { capabilities = ["read-job"] } plugin { policy = "read" }`, "b", 1, 0},
		"of no choice": {`namespace "*" { capabilities = ["read-job"] } plugin { policy = "read" }`, "", 1, 1},
	} {
		token := c.TokenWith(r.policy)
		v := servertest.ReadWith[message.CSIVolumeGetResponse](c.ACLServer, token, "CSIVolume.Get",
			in("a", &message.CSIVolumeGetRequest{ID: "v"}))
		p := servertest.ReadWith[message.CSIPluginGetResponse](c.ACLServer, token, "CSIPlugin.Get",
			in(r.ns, &message.CSIPluginGetRequest{ID: "ebs"}))
		if len(v.Volume.Allocations) != r.volume || len(v.Volume.WriteAllocs) != 1 || v.Volume.WriteClaims != nil {
			t.Errorf("%s: the volume has %d allocations, want %d", name, len(v.Volume.Allocations), r.volume)
		}
		if len(p.Plugin.Allocations) != r.plugin {
			t.Errorf("%s: the plugin has %d allocations, want %d", name, len(p.Plugin.Allocations), r.plugin)
		}
	}
}
