package bundle

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// TestStorage checks the files of CSI plugins and volumes: IDs cannot leave the directory, and the secrets are removed.
func TestStorage(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.EscapedPath() {
		case "/v1/plugins":
			io.WriteString(w, `[{"ID":"ebs"},{"ID":"../ebs"}]`)
		case "/v1/volumes":
			io.WriteString(w, `[{"ID":"data","Namespace":"default"},{"ID":"data","Namespace":"prod"}]`)
		case "/v1/plugin/csi/ebs", "/v1/plugin/csi/..%2Febs":
			io.WriteString(w, `{"ID":"ebs"}`)
		case "/v1/volume/csi/data":
			io.WriteString(w, `{"ID":"data","Namespace":"`+r.URL.Query().Get("namespace")+`","Parameters":{"a":"canary"},"Context":{"a":"canary"},`+
				`"Secrets":{"password":"canary"},"MountOptions":{"MountFlags":["password=canary"]},"Releases":[{"Waits":"the node is down"}]}`)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(srv.Close)
	c, err := api.NewClient(&api.Config{Address: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	d, err := newDir(t.TempDir(), "b", newScrubber(&api.Config{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.close)
	var out strings.Builder
	p := &capture{settings: &settings{}, client: c, dir: d, env: &term.Env{Out: &out, Err: &out}, denied: map[string]bool{}}
	p.storage(t.Context(), 3)
	var names []string
	for _, f := range d.files {
		names = append(names, f.Name)
	}
	slices.Sort(names)
	want := []string{"nomad/0003/csi-plugin-id-..%2Febs.json", "nomad/0003/csi-plugin-id-ebs.json", "nomad/0003/csi-volume-id-data.json",
		"nomad/0003/csi-volume-id-data@prod.json"}
	if !slices.Equal(names, want) || len(p.failed) > 0 {
		t.Errorf("files %q, want %q; failed %q", names, want, p.failed)
	}
	text := readFile(t, p, "nomad/0003/csi-volume-id-data@prod.json")
	if strings.Contains(text, "canary") || !strings.Contains(text, `"Namespace": "prod"`) || !strings.Contains(text, "the node is down") {
		t.Errorf("the volume is %s", text)
	}
}
