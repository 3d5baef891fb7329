package plugin

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// since is the time of all instances and allocations. Its age has no minutes.
var since = time.Now().Add(-time.Hour)

// agent answers the requests about plugins.
func agent(w http.ResponseWriter, r *http.Request) {
	reply := func(v any) { json.NewEncoder(w).Encode(v) } // the test fails without the answer
	switch q := r.URL.Query(); r.URL.Path {
	case "/v1/plugins":
		out := []*api.CSIPluginListStub{}
		for _, p := range []*api.CSIPluginListStub{{ID: "ebs", Provider: "ebs.csi.example", ControllersHealthy: 1, ControllersExpected: 1,
			NodesHealthy: 1, NodesExpected: 2, CreateIndex: 5}, {ID: "ebs-with-a-long-name", CreateIndex: 7}} {
			if strings.HasPrefix(p.ID, q.Get("prefix")) && q.Get("type") == "csi" {
				out = append(out, p)
			}
		}
		reply(out)
	case "/v1/plugin/csi/ebs":
		if q.Get("namespace") != "*" {
			http.Error(w, "namespace", http.StatusBadRequest)
			return
		}
		reply(ebs())
	default:
		http.NotFound(w, r)
	}
}

// ebs is a plugin with a healthy and an unhealthy instance.
func ebs() *api.CSIPlugin {
	node := func(id string, healthy bool) *api.CSIInfo {
		text := map[bool]string{true: "healthy", false: "failed fingerprinting with error: \x1b[2J timeout"}[healthy]
		return &api.CSIInfo{PluginID: "ebs", AllocID: id + "-1111", Healthy: healthy, HealthDescription: text, UpdateTime: since,
			RequiresTopologies: healthy, NodeInfo: &api.CSINodeInfo{ID: "i-1", RequiresNodeStageVolume: true, SupportsExpand: healthy,
				AccessibleTopology: &api.CSITopology{Segments: map[string]string{"zone": "a", "rack": "r"}}}}
	}
	return &api.CSIPlugin{ID: "ebs", Provider: "ebs.csi.example", Version: "1.2.0", ControllersHealthy: 1, ControllersExpected: 1,
		NodesHealthy: 1, NodesExpected: 2,
		Controllers: map[string]*api.CSIInfo{"aaaaaaaa-0000": {PluginID: "ebs", AllocID: "33333333-1111", Healthy: true,
			HealthDescription: "healthy", UpdateTime: since,
			ControllerInfo: &api.CSIControllerInfo{SupportsListVolumes: true, SupportsAttachDetach: true, SupportsClone: true}}},
		Nodes: map[string]*api.CSIInfo{"aaaaaaaa-0000": node("11111111", false), "bbbbbbbb-0000": node("22222222", true)},
		Allocations: []*api.AllocationListStub{{ID: "22222222-1111", NodeID: "bbbbbbbb-0000", JobID: "ebs-nodes", TaskGroup: "g",
			DesiredStatus: "run", ClientStatus: "running", CreateTime: since.UnixNano()}}}
}

// TestStatus compares the outputs for fixed plugins with the golden files.
func TestStatus(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(agent))
	t.Cleanup(srv.Close)
	t.Setenv("NOMAD_ADDR", srv.URL)
	t.Setenv("NOMAD_CONTEXTS", "/nowhere")
	for name, args := range map[string][]string{
		"list": nil, "one": {"ebs"}, "one_short": {"-short", "ebs"}, "one_verbose": {"-verbose", "-short", "ebs"}, "several": {"eb"},
		"none": {"nothing"}, "type": {"-type", "host"}, "template": {"-t", "{{range .}}{{.ID}} {{.NodesHealthy}} {{end}}"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			code := Commands()[0].Adapt(nil, &out, &errOut).Run(args)
			if failed := code != 0; failed != (name == "several" || name == "none" || name == "type") {
				t.Errorf("exit code %d", code)
			}
			path, got := filepath.Join("testdata", name+".txt"), out.String()+"-- stderr --\n"+errOut.String()
			got = strings.ReplaceAll(got, term.Time(since), "TIME")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil || string(want) != got {
				t.Errorf("%s: %v\ngot:\n%s\nwant:\n%s", path, err, got, want)
			}
		})
	}
}
