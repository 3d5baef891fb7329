package api_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	official "github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/api"
)

// asked is a request in a form that two SDKs can be compared by.
type asked struct {
	method, path, secrets string
	query                 map[string][]string
	body                  any
}

// askedAgent starts a server that sends each request to the channel, and responds with the body of its path.
func askedAgent(t *testing.T) (string, chan asked) {
	t.Helper()
	requests := make(chan asked, 10)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := asked{r.Method, r.URL.Path, r.Header.Get("X-Nomad-CSI-Secrets"), r.URL.Query(), nil}
		if raw, _ := io.ReadAll(r.Body); len(raw) > 0 {
			if err := json.Unmarshal(raw, &a.body); err != nil {
				t.Errorf("body of %s %s: %v", r.Method, r.URL, err)
			}
			withoutNull(a.body)
		}
		requests <- a
		switch {
		case r.Method == "GET" && (a.path == "/v1/volumes" || a.path == "/v1/plugins"):
			io.WriteString(w, `[{"ID":"old","CreateIndex":1},{"ID":"new","CreateIndex":2}]`)
		default:
			io.WriteString(w, `{"Volumes":[{"ID":"v"}],"Snapshots":[{"ID":"old","CreateTime":1},{"ID":"new","CreateTime":2}],"NextToken":"n"}`)
		}
	}))
	t.Cleanup(srv.Close)
	return srv.URL, requests
}

// withoutNull removes null and empty values, which are equal to absent ones for a server.
func withoutNull(v any) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if withoutNull(value); value == nil || value == "" || value == false || value == 0.0 {
				delete(v, key)
			}
		}
	case []any:
		for _, item := range v {
			withoutNull(item)
		}
	}
}

// TestCSI_SameRequests compares the requests of both SDKs for CSI volumes and plugins.
func TestCSI_SameRequests(t *testing.T) {
	url, requests := askedAgent(t)
	theirs, err := official.NewClient(&official.Config{Address: url})
	if err != nil {
		t.Fatal(err)
	}
	ours := client(t, &api.Config{Address: url})
	v, o := ours.CSIVolumes(), theirs.CSIVolumes()
	secrets := map[string]string{"password": "hunter2"}
	page := &api.QueryOptions{PerPage: 3, NextToken: "t", Namespace: "n"}
	theirPage := &official.QueryOptions{PerPage: 3, NextToken: "t", Namespace: "n"}
	vol, theirVol := &api.CSIVolume{ID: "v", PluginID: "p", Secrets: secrets, RequestedCapacityMin: 5},
		&official.CSIVolume{ID: "v", PluginID: "p", Secrets: secrets, RequestedCapacityMin: 5}
	snap, theirSnap := &api.CSISnapshot{ID: "s", PluginID: "p", SourceVolumeID: "v", Secrets: secrets},
		&official.CSISnapshot{ID: "s", PluginID: "p", SourceVolumeID: "v", Secrets: secrets}
	for name, row := range map[string]struct{ ours, theirs func() error }{
		"list": {func() error { _, _, err := v.List(page); return err }, func() error { _, _, err := o.List(theirPage); return err }},
		"of node": {func() error { _, err := ours.Nodes().CSIVolumes("a", nil); return err },
			func() error { _, err := theirs.Nodes().CSIVolumes("a", &official.QueryOptions{}); return err }},
		"external": {func() error { _, _, err := v.ListExternal("p", page); return err },
			func() error { _, _, err := o.ListExternal("p", theirPage); return err }},
		"info":     {func() error { _, _, err := v.Info("v", nil); return err }, func() error { _, _, err := o.Info("v", nil); return err }},
		"register": {func() error { _, err := v.Register(vol, nil); return err }, func() error { _, err := o.Register(theirVol, nil); return err }},
		"override": {func() error {
			_, _, err := v.RegisterOpts(&api.CSIVolumeRegisterRequest{Volumes: []*api.CSIVolume{vol}, PolicyOverride: true}, nil)
			return err
		}, func() error {
			_, _, err := o.RegisterOpts(&official.CSIVolumeRegisterRequest{Volumes: []*official.CSIVolume{theirVol}, PolicyOverride: true}, nil)
			return err
		}},
		"create":     {func() error { _, _, err := v.Create(vol, nil); return err }, func() error { _, _, err := o.Create(theirVol, nil); return err }},
		"deregister": {func() error { return v.Deregister("a/b", true, nil) }, func() error { return o.Deregister("a/b", true, nil) }},
		//lint:ignore SA1019 programs still call it
		"delete": {func() error { return v.Delete("v", nil) }, func() error { return o.Delete("v", nil) }},
		"delete with secrets": {func() error {
			return v.DeleteOpts(&api.CSIVolumeDeleteRequest{ExternalVolumeID: "v", Secrets: secrets}, nil)
		},
			func() error {
				return o.DeleteOpts(&official.CSIVolumeDeleteRequest{ExternalVolumeID: "v", Secrets: secrets}, nil)
			}},
		"detach":          {func() error { return v.Detach("v", "node", nil) }, func() error { return o.Detach("v", "node", nil) }},
		"delete snapshot": {func() error { return v.DeleteSnapshot(snap, nil) }, func() error { return o.DeleteSnapshot(theirSnap, nil) }},
		"snapshots": {func() error {
			_, _, err := v.ListSnapshotsOpts(&api.CSISnapshotListRequest{PluginID: "p", Secrets: secrets, QueryOptions: *page})
			return err
		}, func() error {
			_, _, err := o.ListSnapshotsOpts(&official.CSISnapshotListRequest{PluginID: "p", Secrets: secrets, QueryOptions: *theirPage})
			return err
		}},
		"plugins": {func() error { _, _, err := ours.CSIPlugins().List(page); return err },
			func() error { _, _, err := theirs.CSIPlugins().List(theirPage); return err }},
		"plugin": {func() error { _, _, err := ours.CSIPlugins().Info("p", nil); return err },
			func() error { _, _, err := theirs.CSIPlugins().Info("p", nil); return err }},
	} {
		t.Run(name, func(t *testing.T) {
			if err := row.theirs(); err != nil {
				t.Fatal(err)
			}
			want := <-requests
			if err := row.ours(); err != nil {
				t.Fatal(err)
			}
			if got := <-requests; !reflect.DeepEqual(got, want) {
				t.Errorf("our SDK sends %+v, the official one %+v", got, want)
			}
		})
	}
}

// TestCSI_OwnRequests checks the requests in which ours differs: the official SDK sends the plugin as prefix of the IDs of
// volumes, sends the secrets of a new snapshot twice, and ignores those of ListSnapshots.
func TestCSI_OwnRequests(t *testing.T) {
	url, requests := askedAgent(t)
	v := client(t, &api.Config{Address: url}).CSIVolumes()
	list, _, err := v.PluginList("p")
	if got := <-requests; err != nil || got.query["plugin_id"][0] != "p" || len(list) != 2 || list[0].ID != "new" {
		t.Errorf("PluginList() asks for %+v and returns %+v, %v", got, list, err)
	}
	snaps, _, err := v.CreateSnapshot(&api.CSISnapshot{SourceVolumeID: "v", Secrets: api.CSISecrets{"a": "b"}}, nil)
	want := map[string]any{"Snapshots": []any{map[string]any{"SourceVolumeID": "v", "Secrets": map[string]any{"a": "b"}}}}
	if got := <-requests; err != nil || got.secrets != "" || !reflect.DeepEqual(got.body, want) || snaps.Snapshots[0].ID != "old" {
		t.Errorf("CreateSnapshot() sends %+v, %v, want %v", got, err, want)
	}
	listed, _, err := v.ListSnapshots("p", "a=b", nil)
	if got := <-requests; err != nil || got.secrets != "a=b" || listed.NextToken != "n" || listed.Snapshots[0].ID != "new" {
		t.Errorf("ListSnapshots() sends %+v and returns %+v, %v", got, listed, err)
	}
}

// TestCSI_Secrets checks that secrets that the header cannot express are not sent, and are not in the error.
func TestCSI_Secrets(t *testing.T) {
	url, requests := askedAgent(t)
	v := client(t, &api.Config{Address: url}).CSIVolumes()
	for key, value := range map[string]string{"": "hidden", "a=b": "hidden", "a,b": "hidden", "comma": "hidden,x", "line": "hidden\nX-Other: 1",
		"space": " hidden"} {
		secrets := api.CSISecrets{key: value}
		_, _, listErr := v.ListSnapshotsOpts(&api.CSISnapshotListRequest{Secrets: secrets})
		for what, err := range map[string]error{"delete": v.DeleteOpts(&api.CSIVolumeDeleteRequest{ExternalVolumeID: "v", Secrets: secrets}, nil),
			"delete snapshot": v.DeleteSnapshot(&api.CSISnapshot{ID: "s", Secrets: secrets}, nil), "list": listErr} {
			if err == nil || strings.Contains(err.Error(), "hidden") || !strings.Contains(err.Error(), "a request header cannot have") {
				t.Errorf("%s with the secret %q: %v, want an error without the value", what, key, err)
			}
		}
	}
	if len(requests) > 0 {
		t.Errorf("sent %+v", <-requests)
	}
	for what, err := range map[string]error{"delete": v.Delete("", nil), "detach": v.Detach("", "n", nil), "deregister": v.Deregister("", false, nil)} {
		if err == nil || err.Error() != "missing volume ID" {
			t.Errorf("%s without an ID: %v", what, err)
		}
	}
	var w api.WriteOptions
	if w.SetHeadersFromCSISecrets(api.CSISecrets{"b": "2", "a": "1"}); w.Headers["X-Nomad-CSI-Secrets"] != "a=1,b=2" {
		t.Errorf("headers = %v", w.Headers)
	}
}
