package job

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
)

// TestSandboxedDrivers checks which drivers of a job report denials. The kind of an instance comes from
// the nodes, which are asked only for a name that is not built-in.
func TestSandboxedDrivers(t *testing.T) {
	asked := 0
	stub := func(backends map[string]string) *api.NodeListStub {
		n := &api.NodeListStub{Drivers: map[string]*api.DriverInfo{}}
		for name, kind := range backends {
			n.Drivers[name] = &api.DriverInfo{Attributes: map[string]string{"driver." + name + ".backend": kind}}
		}
		return n
	}
	nodes := []*api.NodeListStub{stub(map[string]string{"open": "raw_exec"}),
		stub(map[string]string{"open": "exec2", "raw-2": "raw_exec", "podman": "podman"}), {}}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		if r.URL.Path != "/v1/nodes" {
			http.NotFound(w, r)
		} else if err := json.NewEncoder(w).Encode(nodes); err != nil {
			t.Error(err)
		}
	}))
	defer srv.Close()
	c, err := api.NewClient(&api.Config{Address: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	for driver, want := range map[string]sandboxed{
		"exec2": {"exec2": true}, "raw_exec": {"exec2": true, "raw_exec": false}, "open": {"exec2": true, "open": true},
		"raw-2": {"exec2": true, "raw-2": false}, "podman": {"exec2": true}, "docker": {"exec2": true, "docker": false}, "exec9": {"exec2": true},
	} {
		before := asked
		j := parsed(t, strings.Replace(service, `"raw_exec"`, `"`+driver+`"`, 1))
		got, err := sandboxedDrivers(t.Context(), c, j)
		if err != nil || !maps.Equal(got, want) {
			t.Errorf("%s: %v, %v, want %v", driver, got, err, want)
		}
		if builtIn := driver == "exec2" || driver == "raw_exec" || driver == "docker"; (asked == before) != builtIn {
			t.Errorf("%s: the nodes were asked %d times", driver, asked-before)
		}
	}
}
