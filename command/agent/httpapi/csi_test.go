package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// leaky is a volume as a server that does not remove secrets would answer it.
func leaky(id string) *csi.Volume {
	return &csi.Volume{ID: id, Secrets: csi.Secrets{"password": "hunter2"}, Sealed: &csi.Sealed{KeyID: "hunter2"},
		MountOptions: &nomad.CSIMountOptions{FSType: "ext4", MountFlags: []string{"password=hunter2"}},
		ReadAllocs:   map[string]*nomad.Allocation{"a": nil}, ReadClaims: map[string]*csi.Claim{"a": {AllocationID: "hunter2"}}}
}

// csiServer serves the routes with the methods of CSI, which record their requests and answer with all that they could.
func csiServer(t *testing.T) (*Server, *[]string) {
	t.Helper()
	got := &[]string{}
	note := func(c *rpc.Call, format string, args ...any) {
		*got = append(*got, c.Method+" "+fmt.Sprintf(format, args...))
	}
	snaps := []*csi.Snapshot{{ID: "s", SizeBytes: 5, Secrets: csi.Secrets{"password": "hunter2"}}}
	methods := []rpc.Method{
		csiMethod("CSIVolume.List", func(c *rpc.Call, q *message.CSIVolumeListRequest) *message.CSIVolumeListResponse {
			note(c, "plugin=%s node=%s prefix=%s namespace=%s", q.PluginID, q.NodeID, q.Prefix, q.Namespace)
			return &message.CSIVolumeListResponse{Volumes: []*csi.Stub{{ID: "v"}}, QueryMeta: message.QueryMeta{Index: 5}}
		}),
		csiMethod("CSIVolume.Get", func(c *rpc.Call, q *message.CSIVolumeGetRequest) *message.CSIVolumeGetResponse {
			if note(c, "%s", q.ID); q.ID == "none" {
				return &message.CSIVolumeGetResponse{}
			}
			return &message.CSIVolumeGetResponse{Volume: leaky(q.ID)}
		}),
		csiMethod("CSIVolume.Register", func(c *rpc.Call, q *message.CSIVolumeRegisterRequest) *message.CSIVolumeRegisterResponse {
			note(c, "%s secrets=%v override=%v namespace=%s", q.Volumes[0].ID, q.Volumes[0].Secrets, q.PolicyOverride, q.Namespace)
			if v := q.Volumes[0]; v.Sealed != nil || v.ReadClaims != nil || v.PastClaims != nil {
				t.Errorf("the body set fields of the servers: %+v", v)
			}
			return &message.CSIVolumeRegisterResponse{Volumes: []*csi.Volume{leaky("v")}, QueryMeta: message.QueryMeta{Index: 9}}
		}),
		csiMethod("CSIVolume.Create", func(c *rpc.Call, q *message.CSIVolumeCreateRequest) *message.CSIVolumeCreateResponse {
			note(c, "%s capacity=%d", q.Volumes[0].ID, q.Volumes[0].RequestedCapacityMin)
			return &message.CSIVolumeCreateResponse{Volumes: []*csi.Volume{leaky("v")}}
		}),
		csiMethod("CSIVolume.Deregister", func(c *rpc.Call, q *message.CSIVolumeDeregisterRequest) *message.CSIVolumeDeregisterResponse {
			note(c, "%s force=%v", q.VolumeIDs, q.Force)
			return &message.CSIVolumeDeregisterResponse{}
		}),
		csiMethod("CSIVolume.Delete", func(c *rpc.Call, q *message.CSIVolumeDeleteRequest) *message.CSIVolumeDeleteResponse {
			note(c, "%s secrets=%v", q.VolumeIDs, q.Secrets)
			return &message.CSIVolumeDeleteResponse{}
		}),
		csiMethod("CSIVolume.Unpublish", func(c *rpc.Call, q *message.CSIVolumeUnpublishRequest) *message.CSIVolumeUnpublishResponse {
			note(c, "%s node=%s alloc=%q", q.VolumeID, q.Claim.NodeID, q.Claim.AllocationID)
			return &message.CSIVolumeUnpublishResponse{}
		}),
		csiMethod("CSIVolume.ListExternal", func(c *rpc.Call, q *message.CSIVolumeExternalListRequest) *message.CSIVolumeExternalListResponse {
			note(c, "%s per_page=%d next=%q", q.PluginID, q.PerPage, q.NextToken)
			return &message.CSIVolumeExternalListResponse{NextToken: "%\n1", QueryMeta: message.QueryMeta{NextToken: "%\n1"}}
		}),
		csiMethod("CSIVolume.ListSnapshots", func(c *rpc.Call, q *message.CSISnapshotListRequest) *message.CSISnapshotListResponse {
			note(c, "%s secrets=%v next=%q", q.PluginID, q.Secrets, q.NextToken)
			return &message.CSISnapshotListResponse{Snapshots: snaps}
		}),
		csiMethod("CSIVolume.CreateSnapshot", func(c *rpc.Call, q *message.CSISnapshotCreateRequest) *message.CSISnapshotCreateResponse {
			note(c, "%s secrets=%v", q.Snapshots[0].SourceVolumeID, q.Snapshots[0].Secrets)
			return &message.CSISnapshotCreateResponse{Snapshots: snaps}
		}),
		csiMethod("CSIVolume.DeleteSnapshot", func(c *rpc.Call, q *message.CSISnapshotDeleteRequest) *message.CSISnapshotDeleteResponse {
			note(c, "%s %s secrets=%v", q.Snapshots[0].PluginID, q.Snapshots[0].ID, q.Snapshots[0].Secrets)
			return &message.CSISnapshotDeleteResponse{}
		}),
		csiMethod("CSIPlugin.List", func(c *rpc.Call, q *message.CSIPluginListRequest) *message.CSIPluginListResponse {
			note(c, "prefix=%s", q.Prefix)
			return &message.CSIPluginListResponse{Plugins: []*csi.PluginStub{{ID: "p"}}}
		}),
		csiMethod("CSIPlugin.Get", func(c *rpc.Call, q *message.CSIPluginGetRequest) *message.CSIPluginGetResponse {
			if note(c, "%s", q.ID); q.ID == "none" {
				return &message.CSIPluginGetResponse{}
			}
			return &message.CSIPluginGetResponse{Plugin: &csi.Plugin{ID: q.ID}}
		}),
	}
	srv, err := rpc.NewServer(rpc.Config{Methods: methods, Auth: everybody{}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return changed(newTestServer(t, 0), func(c *Config) { c.RPC = srv }), got
}

func csiMethod[Q, R any, PQ interface {
	*Q
	rpc.Request
}](name string, answer func(*rpc.Call, *Q) *R) rpc.Method {
	return rpc.Handle[Q, R, PQ](name, rpc.Token, rpc.Here, func(_ context.Context, c *rpc.Call, q *Q) (*R, error) {
		if out := answer(c, q); out != nil {
			return out, nil
		}
		return nil, apierror.Errorf(500, "no answer")
	}).Needs(rpc.AnyToken)
}

// TestCSIRoutes checks the RPC of each route and its reply. No reply contains a secret.
func TestCSIRoutes(t *testing.T) {
	s, calls := csiServer(t)
	const header = "X-Nomad-CSI-Secrets"
	for _, tt := range []struct {
		name, request, body, secrets string
		call                         string // the RPC, "" for none
		status                       int
		want                         string // part of the reply
	}{
		{"list", "GET /v1/volumes?type=csi&plugin_id=p&node_id=n&prefix=x&namespace=*", "", "",
			"CSIVolume.List plugin=p node=n prefix=x namespace=*", 200, `[{"AccessMode":""`},
		{"list without a type", "GET /v1/volumes", "", "", "CSIVolume.List plugin= node= prefix= namespace=default", 200, "[]"},
		{"list of another type", "GET /v1/volumes?type=nfs", "", "", "", 404, `unknown volume type "nfs"`},
		{"volume", "GET /v1/volume/csi/a%2Fb", "", "", "CSIVolume.Get a/b", 200, `"ReadAllocs":{"a":null}`},
		{"volume, allocations", "GET /v1/volume/csi/v", "", "", "CSIVolume.Get v", 200, `"Allocations":[]`},
		{"volume, secrets", "GET /v1/volume/csi/v", "", "", "CSIVolume.Get v", 200, `"Secrets":null`},
		{"volume, flags", "GET /v1/volume/csi/v", "", "", "CSIVolume.Get v", 200, `{"FSType":"ext4","MountFlags":["[REDACTED]"]}`},
		{"no volume", "GET /v1/volume/csi/none", "", "", "CSIVolume.Get none", 404, "volume not found"},
		{"register", "PUT /v1/volume/csi/v?namespace=n",
			`{"PolicyOverride":true,"Volumes":[{"ID":"v","Secrets":{"a":"b"},"Sealed":{"KeyID":"k"},"ReadClaims":{"a":{}},"PastClaims":{"a":{}}}]}`, "",
			"CSIVolume.Register v secrets=map[a:b] override=true namespace=n", 200, `"ID":"v"`},
		{"register, another ID", "PUT /v1/volume/csi/v", `{"Volumes":[{"ID":"w"}]}`, "", "", 400, `"w" of the body does not match "v"`},
		{"register without an ID", "PUT /v1/volume/csi/", `{"Volumes":[{}]}`, "",
			"CSIVolume.Register  secrets=map[] override=false namespace=default", 200, ""},
		{"register several", "PUT /v1/volumes", `{"Volumes":[{"ID":"v"},{"ID":"w"}]}`, "",
			"CSIVolume.Register v secrets=map[] override=false namespace=default", 200, `"Warnings":""`},
		{"register by POST", "POST /v1/volumes", `{"Volumes":[{"ID":"v"}]}`, "",
			"CSIVolume.Register v secrets=map[] override=false namespace=default", 200, ""},
		{"register one by POST", "POST /v1/volume/csi/v", `{"Volumes":[{"ID":"v"}]}`, "", "", 405, "Invalid method"},
		{"register null", "PUT /v1/volume/csi/v", `{"Volumes":[null]}`, "", "", 400, "null"},
		{"register nothing", "PUT /v1/volume/csi/v", "", "", "", 400, "Request body is empty"},
		{"create", "PUT /v1/volume/csi/v/create", `{"Volumes":[{"ID":"v","RequestedCapacityMin":5}]}`, "", "CSIVolume.Create v capacity=5", 200,
			`"ID":"v"`},
		{"create, another ID", "PUT /v1/volume/csi/v/create", `{"Volumes":[{"ID":"w"}]}`, "", "", 400, "does not match"},
		{"deregister", "DELETE /v1/volume/csi/v?force=true", "", "", "CSIVolume.Deregister [v] force=true", 200, ""},
		{"deregister, no force", "DELETE /v1/volume/csi/v", "", "", "CSIVolume.Deregister [v] force=false", 200, ""},
		{"deregister, bad force", "DELETE /v1/volume/csi/v?force=maybe", "", "", "", 400, "invalid force value"},
		{"delete", "DELETE /v1/volume/csi/v/delete", "", "a=b,c=d=e", "CSIVolume.Delete [v] secrets=map[a:b c:d=e]", 200, ""},
		{"delete without secrets", "DELETE /v1/volume/csi/v/delete", "", "", "CSIVolume.Delete [v] secrets=map[]", 200, ""},
		{"delete, bad secrets", "DELETE /v1/volume/csi/v/delete", "", "a=hunter2,hunter2", "", 400, "invalid header X-Nomad-CSI-Secrets"},
		{"detach", "DELETE /v1/volume/csi/v/detach?node=n", "", "", `CSIVolume.Unpublish v node=n alloc=""`, 200, ""},
		{"detach without a node", "DELETE /v1/volume/csi/v/detach", "", "", "", 400, "detach requires node ID"},
		{"external", "GET /v1/volumes/external?plugin_id=p&per_page=3&next_token=%25%2525%250A1", "", "",
			`CSIVolume.ListExternal p per_page=3 next="%\n1"`, 200, `"NextToken":"%%25%0A1"`},
		{"external, empty", "GET /v1/volumes/external?plugin_id=p", "", "", `CSIVolume.ListExternal p per_page=0 next=""`, 200, `"Volumes":[]`},
		{"snapshots", "GET /v1/volumes/snapshot?plugin_id=p&next_token=t", "", "a=b", `CSIVolume.ListSnapshots p secrets=map[a:b] next="t"`, 200,
			`"SizeBytes":5`},
		{"snapshots, bad secrets", "GET /v1/volumes/snapshot?plugin_id=p", "", "=hunter2", "", 400, "invalid header"},
		{"new snapshot", "PUT /v1/volumes/snapshot", `{"Snapshots":[{"SourceVolumeID":"v","Secrets":{"a":"b"}}]}`, "",
			"CSIVolume.CreateSnapshot v secrets=map[a:b]", 200, `"ID":"s"`},
		{"delete a snapshot", "DELETE /v1/volumes/snapshot?plugin_id=p&snapshot_id=s", "", "a=b", "CSIVolume.DeleteSnapshot p s secrets=map[a:b]",
			200, ""},
		{"plugins", "GET /v1/plugins?type=csi&prefix=x", "", "", "CSIPlugin.List prefix=x", 200, `"ID":"p"`},
		{"plugins without a type", "GET /v1/plugins", "", "", "CSIPlugin.List prefix=", 200, "[]"},
		{"plugins of another type", "GET /v1/plugins?type=x", "", "", "CSIPlugin.List prefix=", 200, ""},
		{"plugin", "GET /v1/plugin/csi/p", "", "", "CSIPlugin.Get p", 200, `"ControllersExpected":0`},
		{"no plugin", "GET /v1/plugin/csi/none", "", "", "CSIPlugin.Get none", 404, "plugin not found"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			*calls = nil
			method, path, _ := strings.Cut(tt.request, " ")
			w := do(s, method, path, tt.body, header, tt.secrets)
			if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.want) {
				t.Errorf("%s = %d %q, want %d and %q", tt.request, w.Code, w.Body, tt.status, tt.want)
			}
			if got := strings.Join(*calls, "; "); got != tt.call {
				t.Errorf("%s calls %q, want %q", tt.request, got, tt.call)
			}
			if strings.Contains(w.Body.String(), "hunter2") {
				t.Errorf("%s has a secret: %s", tt.request, w.Body)
			}
		})
	}
}

// TestCSIPages checks that a page token of a plugin reaches it unchanged, from the body and from the header.
func TestCSIPages(t *testing.T) {
	s, calls := csiServer(t)
	w := do(s, "GET", "/v1/volumes/external?plugin_id=p", "")
	var body struct{ NextToken string }
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || body.NextToken != w.Header().Get("X-Nomad-NextToken") {
		t.Fatalf("NextToken = %q, header %q, %v", body.NextToken, w.Header().Get("X-Nomad-NextToken"), err)
	}
	*calls = nil
	do(s, "GET", "/v1/volumes/external?plugin_id=p&next_token="+strings.ReplaceAll(body.NextToken, "%", "%25"), "")
	if want := []string{`CSIVolume.ListExternal p per_page=0 next="%\n1"`}; !reflect.DeepEqual(*calls, want) {
		t.Errorf("the next page calls %q, want %q", *calls, want)
	}
}
