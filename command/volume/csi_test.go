package volume

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const (
	nodeA = "aaaaaaaa-1111-2222-3333-444444444444"
	nodeB = "bbbbbbbb-1111-2222-3333-444444444444"
	gone  = "cccccccc-1111-2222-3333-444444444444"
)

// storage is an agent with a few volumes. It records the requests that change something.
type storage struct{ changes []string }

func (s *storage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	reply := func(v any) { json.NewEncoder(w).Encode(v) } // the test fails without the answer
	q := r.URL.Query()
	if r.Method != http.MethodGet {
		body, _ := io.ReadAll(r.Body)
		s.changes = append(s.changes, strings.TrimSpace(r.Method+" "+r.URL.String()+" "+r.Header.Get("X-Nomad-CSI-Secrets")+" "+string(body)))
	}
	switch r.Method + " " + r.URL.Path {
	case "GET /v1/volumes":
		if q.Get("type") == "host" {
			if q.Get("namespace") == "private" {
				http.Error(w, "Permission denied", http.StatusForbidden)
				return
			}
			reply(prefixed([]*api.HostVolumeStub{{ID: "5d1f7b52-0000-1111-2222-333333333333", Name: "scratch", Namespace: "default", PluginID: "mkdir",
				NodeID: nodeA, NodePool: "default", State: "ready"}}, q.Get("prefix"), func(v *api.HostVolumeStub) string { return v.Name }))
			return
		}
		if q.Get("namespace") == "empty" {
			reply([]any{})
			return
		}
		reply(prefixed([]*api.CSIVolumeListStub{
			{ID: "data", Name: "data", Namespace: "default", PluginID: "ebs", Schedulable: true, AccessMode: "single-node-writer"},
			{ID: "data-old", Namespace: "default", PluginID: "ebs"}}, q.Get("prefix"), func(v *api.CSIVolumeListStub) string { return v.ID }))
	case "GET /v1/volume/csi/data", "GET /v1/volume/csi/data-old":
		reply(stuckVolume(strings.TrimPrefix(r.URL.Path, "/v1/volume/csi/")))
	case "GET /v1/volume/host/5d1f7b52-0000-1111-2222-333333333333":
		reply(api.HostVolume{ID: "5d1f7b52-0000-1111-2222-333333333333", Name: "scratch", Namespace: "default", State: "ready",
			HostPath: "/srv/scratch"})
	case "GET /v1/plugins":
		reply(prefixed([]*api.CSIPluginListStub{{ID: "ebs", Provider: "ebs.csi.example"}, {ID: "nfs", Provider: "nfs.csi.example"}},
			q.Get("prefix"), func(p *api.CSIPluginListStub) string { return p.ID }))
	case "GET /v1/volumes/external":
		s.external(w, q.Get("plugin_id"), q.Get("next_token"))
	case "GET /v1/volumes/snapshot":
		if q.Get("plugin_id") == "nfs" {
			http.Error(w, "plugin does not support listing snapshots", http.StatusInternalServerError)
			return
		}
		reply(api.CSISnapshotListResponse{NextToken: "page2", Snapshots: []*api.CSISnapshot{{ID: "snap-1",
			ExternalSourceVolumeID: "vol-0123456789abcdef", SizeBytes: 10 << 30, CreateTime: time.Now().Add(-time.Hour).Unix(), IsReady: true}}})
	case "PUT /v1/volumes/snapshot":
		reply(api.CSISnapshotCreateResponse{Snapshots: []*api.CSISnapshot{{ID: "snap-2\x1b[2J", ExternalSourceVolumeID: "vol-1",
			SizeBytes: 1 << 20, CreateTime: time.Now().Add(-time.Hour).Unix()}}})
	case "GET /v1/nodes":
		reply(prefixed([]*api.NodeListStub{{ID: nodeA}, {ID: nodeB}}, q.Get("prefix"), func(n *api.NodeListStub) string { return n.ID }))
	case "PUT /v1/volume/csi/database/create":
		reply(api.CSIVolumeCreateResponse{Volumes: []*api.CSIVolume{{ID: "database", ExternalID: "vol-9"}}, Warnings: "one warning"})
	case "PUT /v1/volume/csi/database":
		reply(api.CSIVolumeRegisterResponse{})
	case "PUT /v1/volume/csi/bad":
		http.Error(w, "validation: missing plugin id", http.StatusInternalServerError)
	}
}

// external answers two pages of the volumes of a plugin, or an error for another plugin.
func (s *storage) external(w http.ResponseWriter, plugin, token string) {
	if plugin != "ebs" {
		http.Error(w, "unimplemented for this plugin", http.StatusInternalServerError)
		return
	}
	page := api.CSIVolumeListExternalResponse{NextToken: "2", Volumes: []*api.CSIVolumeExternalStub{
		{ExternalID: "vol-1", PublishedExternalNodeIDs: []string{"i-1", "i-2"}}}}
	if token == "2" { // this faulty plugin never ends
		page.Volumes[0] = &api.CSIVolumeExternalStub{ExternalID: "vol-2", IsAbnormal: true, Status: "disk | failed"}
	}
	json.NewEncoder(w).Encode(page) // the test fails without the answer
}

// prefixed returns the items whose key begins with a prefix.
func prefixed[T any](list []T, prefix string, key func(T) string) []T {
	out := []T{}
	for _, item := range list {
		if strings.HasPrefix(key(item), prefix) {
			out = append(out, item)
		}
	}
	return out
}

// stuckVolume is a volume with claims that are being released.
func stuckVolume(id string) *api.CSIVolume {
	since := time.Now().Add(-5*time.Hour - 100*time.Millisecond) // the age has no seconds
	return &api.CSIVolume{ID: id, Name: "data", Namespace: "default", ExternalID: "vol-0123", PluginID: "ebs", Provider: "ebs.csi.example",
		ProviderVersion: "1.2.0", Capacity: 10 << 30, ControllersHealthy: 1, ControllersExpected: 1, NodesHealthy: 2, NodesExpected: 3,
		AccessMode: "single-node-writer", AttachmentMode: "file-system", Schedulable: true,
		MountOptions: &api.CSIMountOptions{FSType: "ext4", MountFlags: []string{"[REDACTED]"}},
		Topologies:   []*api.CSITopology{nil, {Segments: map[string]string{"zone": "a", "rack": "r1"}}, {}},
		RequestedCapabilities: []*api.CSIVolumeCapability{{AccessMode: "single-node-writer", AttachmentMode: "file-system"},
			{AccessMode: "single-node-reader-only", AttachmentMode: "block-device"}},
		Releases: []*api.CSIVolumeRelease{
			{AllocID: "11111111-1111-2222-3333-444444444444", NodeID: gone, State: "unpublishing", Since: since,
				Waits: "node cccccccc does not answer: no path\x1b[2J to node", Command: "nomad volume detach data " + gone},
			{AllocID: "22222222-1111-2222-3333-444444444444", NodeID: nodeA, State: "node-detached", Since: since,
				Waits: "controller plugin \"ebs\" has no healthy instance"}},
		Allocations: []*api.AllocationListStub{{ID: "33333333-1111-2222-3333-444444444444", NodeID: nodeB, JobID: "db", TaskGroup: "g",
			DesiredStatus: "run", ClientStatus: "running", CreateTime: since.UnixNano()}}}
}

// run runs a command against the storage.
func run(t *testing.T, s *storage, input string, args ...string) (code int, out, errOut string) {
	t.Helper()
	srv := httptest.NewServer(s)
	defer srv.Close()
	t.Setenv("NOMAD_ADDR", srv.URL)
	t.Setenv("NOMAD_CONTEXTS", "/nowhere")
	t.Setenv("TZ", "UTC")
	for _, c := range Commands() {
		words := strings.Fields(c.Name)[1:]
		if len(args) >= len(words) && strings.Join(args[:len(words)], " ") == strings.Join(words, " ") {
			var stdout, stderr bytes.Buffer
			code = c.Adapt(strings.NewReader(input), &stdout, &stderr).Run(args[len(words):])
			return code, stdout.String(), stderr.String()
		}
	}
	t.Fatalf("no command %v", args)
	return 0, "", ""
}

// golden compares an output with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || string(want) != got {
		t.Errorf("%s: %v\ngot:\n%s\nwant:\n%s", path, err, got, want)
	}
}

// TestStatus compares the outputs for fixed volumes with the golden files.
func TestStatus(t *testing.T) {
	for name, args := range map[string][]string{
		"list": {"status"}, "list_csi": {"status", "-type=csi"}, "list_host": {"status", "-type", "host"},
		"list_verbose": {"status", "-type", "csi", "-verbose"}, "list_empty": {"status", "-namespace", "empty"},
		"list_private": {"status", "-namespace", "private"},
		"one":          {"status", "data"}, "one_short": {"status", "-short", "data"},
		"several": {"status", "dat"}, "none": {"status", "nothing"}, "host": {"status", "scr"}, "other_type": {"status", "-type", "nfs"},
		"template":          {"status", "-t", "{{range .}}{{.ID}} {{end}}"},
		"snapshots":         {"snapshot", "list", "-plugin", "ebs"},
		"snapshots_all":     {"snapshot", "list"},
		"snapshots_refused": {"snapshot", "list", "-plugin", "nfs"},
		"snapshots_secret":  {"snapshot", "list", "-secret", "a=b"},
		"snapshots_none":    {"snapshot", "list", "-plugin", "x"},
		"snapshot":          {"snapshot", "create", "data", "first"},
	} {
		t.Run(name, func(t *testing.T) {
			_, out, errOut := run(t, &storage{}, "", args...)
			golden(t, name, out+"-- stderr --\n"+errOut)
		})
	}
}

// TestChanges checks the requests of commands that change something.
func TestChanges(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "v.hcl")
	spec := "id = \"database\"\ntype = \"csi\"\nplugin_id = \"ebs\"\nnamespace = \"prod\"\nodd = 1\nsecrets {\n  password = \"x\"\n}\n"
	if err := os.WriteFile(file, []byte(spec), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, args, input string
		code              int
		change            string // the beginning of the request, "" for none
		want              string // a part of the output
	}{
		{"create", "create " + file, "", 0, "PUT /v1/volume/csi/database/create?namespace=prod  {\"Volumes\":[{\"ID\":\"database\"",
			"one warning\nCreated external volume vol-9 with ID database\n"},
		{"create, unknown key", "create " + file, "", 0, "PUT /v1/volume/csi/database/create", "unknown keys, which are ignored: odd"},
		{"register", "register -policy-override " + file, "", 0, "PUT /v1/volume/csi/database?namespace=prod", "Volume \"database\" registered\n"},
		{"register refused", "register -id bad " + file, "", 1, "PUT /v1/volume/csi/bad", "Error registering volume: "},
		{"delete", "delete -secret a=b -secret c=d=e data", "", 0, "DELETE /v1/volume/csi/data/delete?namespace=default a=b,c=d=e",
			"Successfully deleted volume \"data\"!"},
		{"delete, comma", "delete -secret a=hunter2,x data", "", 1, "", "secret \"a\" contains a comma"},
		{"delete, no pair", "delete -secret hunter2 data", "", 1, "", "Invalid value 1 for -secret: expected key=value"},
		{"delete several", "delete dat", "", 1, "", "Prefix matched multiple volumes"},
		{"delete a host volume", "delete scratch", "", 1, "", "it is a dynamic host volume"},
		{"delete another type", "delete -type nfs data", "", 1, "", "expected csi or host"},
		{"deregister", "deregister data-o", "", 0, "DELETE /v1/volume/csi/data-old?force=false&namespace=default",
			"Successfully deregistered volume \"data-old\"!"},
		{"force, y", "deregister -force data", "y\n", 0, "DELETE /v1/volume/csi/data?force=true", "force deregister volume \"data\"? [y/N]"},
		{"force, y without a line", "deregister -force data", "y", 0, "DELETE /v1/volume/csi/data?force=true", ""},
		{"force, nothing", "deregister -force data", "\n", 0, "", "Cancelling volume deregister"},
		{"force, n", "deregister -force data", "n\n", 0, "", "Cancelling volume deregister"},
		{"force, No", "deregister -force data", "No\n", 0, "", "Cancelling volume deregister"},
		{"force, yes", "deregister -force data", "yes\n", 0, "", "only the exact answer y"},
		{"force, Y", "deregister -force data", "Y\n", 0, "", "only the exact answer y"},
		{"force, other", "deregister -force data", "maybe\n", 1, "", "neither y nor n"},
		{"force, end", "deregister -force data", "", 1, "", "standard input ended"},
		{"detach", "detach data " + nodeA[:5], "", 0, "DELETE /v1/volume/csi/data/detach?namespace=default&node=" + nodeA, "from node \"" + nodeA},
		{"detach, node in upper case", "detach data AAAAAAAA", "", 0, "DELETE /v1/volume/csi/data/detach?namespace=default&node=" + nodeA, ""},
		{"detach from a node that is gone", "detach data cc", "", 0, "DELETE /v1/volume/csi/data/detach?namespace=default&node=" + gone, ""},
		{"detach from an unknown node", "detach data dd", "", 1, "", "No nodes with prefix or ID \"dd\" found"},
		{"detach by a complete ID", "detach data " + strings.ReplaceAll(gone, "c", "d"), "", 0,
			"DELETE /v1/volume/csi/data/detach?namespace=default&node=dddddddd", ""},
		{"snapshot", "snapshot create -parameter a=b -secret c=d data first", "", 0,
			`PUT /v1/volumes/snapshot?namespace=default  {"Snapshots":[{"ID":"","ExternalSourceVolumeID":"","SizeBytes":0,"CreateTime":0,` +
				`"IsReady":false,"SourceVolumeID":"data","PluginID":"ebs","Name":"first","Secrets":{"c":"d"},"Parameters":{"a":"b"}}]`, `snap-2\x1b[2J`},
		{"snapshot without a name", "snapshot create data", "", 0, "PUT /v1/volumes/snapshot", ""},
		{"delete a snapshot", "snapshot delete -secret a=b ebs snap-1", "", 0, "DELETE /v1/volumes/snapshot?plugin_id=ebs&snapshot_id=snap-1 a=b",
			"Successfully deleted snapshot \"snap-1\"!"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &storage{}
			code, out, errOut := run(t, s, tt.input, strings.Fields(tt.args)...)
			if code != tt.code || !strings.Contains(out+errOut, tt.want) {
				t.Errorf("exit %d, %q, %q, want %d and %q", code, out, errOut, tt.code, tt.want)
			}
			if strings.Contains(out+errOut, "hunter2") {
				t.Errorf("the output has a secret: %q %q", out, errOut)
			}
			got := strings.Join(s.changes, "\n")
			if !strings.HasPrefix(got, tt.change) || tt.change == "" && got != "" || len(s.changes) > 1 {
				t.Errorf("requests %q, want %q", got, tt.change)
			}
		})
	}
}

// TestInit checks that the examples are read without a fault, and that a file is not overwritten.
func TestInit(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, args := range []string{"", "-json", "-type=host", "-type host -json"} {
		code, out, errOut := run(t, &storage{}, "", append([]string{"init"}, strings.Fields(args)...)...)
		name := strings.TrimSpace(strings.TrimPrefix(out, "Example volume specification written to "))
		text, err := os.ReadFile(name)
		if err != nil || code != 0 {
			t.Fatalf("init %s: %d %q, %v", args, code, errOut, err)
		}
		v, ignored, err := parse(text)
		if err != nil || len(ignored) > 0 || (v.csi == nil) == strings.Contains(name, "csi") {
			t.Errorf("%s: %+v, ignored %v, %v", name, v, ignored, err)
		}
	}
	if code, _, errOut := run(t, &storage{}, "", "init"); code != 1 || !strings.Contains(errOut, "already exists") {
		t.Errorf("a second init: %d %q", code, errOut)
	}
}
