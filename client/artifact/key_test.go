package artifact_test

import (
	"maps"
	"net/http"
	"reflect"
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/client/artifact"
	"github.com/open-nomad/open-nomad/nomad"
)

// signingKey and otherKey are public keys of minisign.
const (
	signingKey = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3"
	otherKey   = "RWSGOq2NVecA2UPNdBUZykf1CCb147pkmdtYxgb3Ti+JO/wCYvhcAb/U"
)

// TestKey_Inputs checks that each field that decides what a task can download changes the key of the cache. A new field
// fails the test until it has a value here.
func TestKey_Inputs(t *testing.T) {
	f := newCached(t, t.TempDir())
	h := withFetcher(t, f)
	seen := map[string]string{}
	add := func(what string, task artifact.Task, a nomad.TaskArtifact) {
		t.Helper()
		key, err := artifact.Key(f, &task, &a)
		if err != nil || key == "" {
			t.Errorf("%s: key %q, %v", what, key, err)
			return
		}
		if before, has := seen[key]; has {
			t.Errorf("%s has the key of %s", what, before)
		}
		seen[key] = what
	}
	base := func() nomad.TaskArtifact {
		return nomad.TaskArtifact{GetterSource: "https://host/a?checksum=" + digest("a"), RelativeDest: "local/",
			Verify: &nomad.ArtifactVerify{MinisignKey: signingKey}}
	}
	add("the base", *h.task, base())
	values := map[string]any{
		"GetterSource": "https://other/a?checksum=" + digest("a"), "GetterOptions": map[string]string{"x": "y"},
		"GetterHeaders": map[string]string{"x": "y"},
		"GetterMode":    "dir", "GetterInsecure": true, "Verify": &nomad.ArtifactVerify{MinisignKey: otherKey}, "RelativeDest": nil, "Chown": nil,
		"Namespace": "b", "Driver": "docker", "Ports": []any{443}, "Mode": "bridge", "Isolate": true, "Egress": &nomad.NetworkEgress{},
		"CNI": &nomad.CNIConfig{Args: map[string]string{"vlan": "2"}}, "Job": "web", "Group": "g",
	}
	unused := slices.Collect(maps.Keys(values))
	set := func(of reflect.Value, field reflect.StructField, change func()) {
		value, has := values[field.Name]
		unused = slices.DeleteFunc(unused, func(name string) bool { return name == field.Name })
		switch {
		case !has:
			t.Errorf("decide whether %s of %s is part of the key", field.Name, of.Type())
		case value != nil: // nil changes only where the artifact is put
			of.FieldByIndex(field.Index).Set(reflect.ValueOf(value))
			change()
		}
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[nomad.TaskArtifact]()) {
		if a := base(); field.IsExported() {
			set(reflect.ValueOf(&a).Elem(), field, func() { add(field.Name, *h.task, a) })
		}
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[artifact.Reach]()) {
		task := *h.task
		set(reflect.ValueOf(&task.Reach).Elem(), field, func() { add(field.Name, task, base()) })
	}
	limited := *h.task
	limited.Reach.Egress = &nomad.NetworkEgress{Allow: []string{"192.0.2.1"}}
	add("a list of destinations", limited, base())
	if len(unused) > 0 {
		t.Errorf("no field has the name %q", unused)
	}
}

// TestReachOf checks what is taken from an allocation.
func TestReachOf(t *testing.T) {
	egress, cni := &nomad.NetworkEgress{Allow: []string{"192.0.2.1"}}, &nomad.CNIConfig{Args: map[string]string{"a": "b"}}
	task := &nomad.Task{Name: "web", Driver: "exec2", Config: map[string]any{"network": "ports"}}
	for mode, want := range map[string]artifact.Reach{
		"":       {Namespace: "b", Driver: "exec2", Ports: "ports", Mode: "host"},
		"bridge": {Namespace: "b", Driver: "exec2", Ports: "ports", Mode: "bridge", Isolate: true, Egress: egress, CNI: cni},
		"cni/store": {Namespace: "b", Driver: "exec2", Ports: "ports", Mode: "cni/store", Isolate: true, Egress: egress, CNI: cni, Job: "shop",
			Group: "g"},
	} {
		group := &nomad.TaskGroup{Name: "g"}
		if mode != "" {
			group.Networks = nomad.Networks{{Mode: mode, Isolate: true, Egress: egress, CNI: cni}}
		}
		a := &nomad.Allocation{Namespace: "b", JobID: "shop", TaskGroup: "g", Job: &nomad.Job{ID: "shop", TaskGroups: []*nomad.TaskGroup{group}}}
		if got := artifact.ReachOf(a, task); !reflect.DeepEqual(got, want) {
			t.Errorf("mode %q: ReachOf() = %+v, want %+v", mode, got, want)
		}
	}
}

// TestCache_OtherReach checks that a job gets from the cache only what jobs with its namespace and network have
// downloaded.
func TestCache_OtherReach(t *testing.T) {
	f := newCached(t, t.TempDir())
	handler, n := counted([]byte("private"))
	url := serve(t, map[string]http.HandlerFunc{"/priv": handler})
	a := nomad.TaskArtifact{GetterSource: url + "/priv?checksum=" + digest("private")}
	for _, c := range []struct {
		reach artifact.Reach
		want  int64
	}{
		{artifact.Reach{Namespace: "default", Mode: "host"}, 1},
		{artifact.Reach{Namespace: "default", Mode: "host"}, 1},
		{artifact.Reach{Namespace: "b", Mode: "host"}, 2},
		{artifact.Reach{Namespace: "default", Mode: "bridge", Egress: &nomad.NetworkEgress{}}, 3},
		{artifact.Reach{Namespace: "default", Mode: "bridge", Egress: &nomad.NetworkEgress{}}, 3},
	} {
		h := withFetcher(t, f)
		h.task.Reach = c.reach
		h.gets(&a)
		if n.Load() != c.want {
			t.Errorf("%+v: %d downloads, want %d", c.reach, n.Load(), c.want)
		}
	}
}
