package admission

import (
	"reflect"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// demanding returns a job that needs two rights: privileged-execution, which every caller needs, and a volume.
func demanding() *nomad.Job {
	return &nomad.Job{ID: "j", Namespace: "team", TaskGroups: []*nomad.TaskGroup{{Name: "g",
		Volumes: map[string]*nomad.VolumeRequest{"v": {Name: "v", Type: nomad.VolumeTypeHost, Source: "data"}},
		Tasks:   []*nomad.Task{{Name: "t", Privileged: true}}}}}
}

// TestAskers checks whose rights count for a job that needs a volume and a privileged task.
func TestAskers(t *testing.T) {
	access := func(rules string) *rpc.Access {
		p, err := acl.Parse(rules)
		if err != nil {
			t.Fatal(err)
		}
		return &rpc.Access{Rights: acl.New(false, p)}
	}
	const volume, privileged = `host_volume "data" { policy = "write" }`, `namespace "team" { capabilities = ["privileged-execution"] }`
	both := &nomad.Registrant{Rights: []string{`mount-readwrite of host_volume "data"`, `privileged-execution in namespace "team"`}}
	author := func(r *nomad.Registrant) *nomad.Job { return &nomad.Job{ID: "j", Namespace: "team", Registrant: r} }
	own := demanding() // its author had both rights when it was registered
	for name, c := range map[string]struct {
		who  Asker
		want string // part of the error, "" if the asker has all rights
	}{
		"nobody":                       {Asker{}, "privileged-execution"},
		"caller without rights":        {Caller(access(`node { policy = "read" }`)), "privileged-execution"},
		"caller with privilege":        {Caller(access(privileged)), "mount-readwrite"},
		"caller with both":             {Caller(access(privileged + "\n" + volume)), ""},
		"planner with privilege":       {Planner(access(privileged)), ""},
		"planner with the volume":      {Planner(access(volume)), "privileged-execution"},
		"start by a privileged caller": {For(access(privileged), own), ""},
		"start by another":             {For(access(volume), own), "privileged-execution"},
		"author without record":        {Author(author(nil)), "privileged-execution"},
		"author with another right":    {Author(author(&nomad.Registrant{Rights: both.Rights[:1]})), "privileged-execution"},
		"author with both":             {Author(author(both)), ""},
		"management":                   {Author(author(&nomad.Registrant{Management: true})), ""},
		"author of the version":        {Author(own), ""},
	} {
		err := New(Config{}).Rights(c.who, demanding())
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// The stored rights are in log entries and snapshots. They are not in the API.
func TestRegistrantIsStored(t *testing.T) {
	j := &nomad.Job{ID: "j", Registrant: &nomad.Registrant{Rights: []string{"a right"}}}
	b, err := codec.Encode(j)
	if err != nil {
		t.Fatal(err)
	}
	var out nomad.Job
	if err := codec.Decode(b, &out); err != nil || !reflect.DeepEqual(out.Registrant, j.Registrant) {
		t.Errorf("decoded %+v, %v", out.Registrant, err)
	}
	text, err := codec.EncodeJSON(j)
	if err != nil || strings.Contains(string(text), "Registrant") || strings.Contains(string(text), "a right") {
		t.Errorf("JSON %s, %v", text, err)
	}
	if b, err = codec.Encode(&nomad.Job{ID: "j"}); err != nil || strings.Contains(string(b), "Registrant") {
		t.Errorf("a job without rights has the field: %v", err)
	}
}
