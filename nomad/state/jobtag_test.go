package state_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// tag sets a tag, or removes it if the version is negative.
func (w *world) tag(name string, version int) error {
	req := &message.JobApplyTagRequest{JobID: "web", Name: name, WriteRequest: message.WriteRequest{Namespace: "default"}}
	if version >= 0 {
		req.Version, req.Tag = uint64(version), &nomad.JobVersionTag{Name: name, Description: "text", TaggedTime: 1}
	}
	_, err := w.TagJobVersion(w.next(), req)
	return err
}

// tags lists the tags of the versions, newest first.
func (w *world) tags() string {
	out := ""
	for _, v := range w.snap().JobVersions(nil, "default", "web") {
		if v.VersionTag != nil {
			out += fmt.Sprintf(" %d=%s", v.Version, v.VersionTag.Name)
		}
	}
	return out
}

func TestVersionTags(t *testing.T) {
	w := newWorld(t)
	for range 3 {
		w.job("web")
	}
	for _, c := range []struct {
		name    string
		version int
		refused string
		want    string
	}{
		{"good", 0, "", " 0=good"},
		{"good", 1, `tag "good" already exists on a different version of job "web"`, " 0=good"},
		{"better", 0, "", " 0=better"},
		{"now", 2, "", " 2=now 0=better"},
		{"none", 9, `job "web" version 9 not found`, " 2=now 0=better"},
		{"none", -1, `tag "none" not found on job "web"`, " 2=now 0=better"},
		{"now", -1, "", " 0=better"},
	} {
		err := w.tag(c.name, c.version)
		if c.refused == "" && err != nil || c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)) {
			t.Errorf("tag %q of version %d: %v, want %q", c.name, c.version, err, c.refused)
		}
		if got := w.tags(); got != c.want {
			t.Errorf("after tag %q of version %d: tags%s, want%s", c.name, c.version, got, c.want)
		}
	}
	if err := w.tag("now", 2); err != nil {
		t.Fatal(err)
	}
	if j := w.snap().Job(nil, "default", "web"); j.VersionTag == nil || j.VersionTag.Name != "now" {
		t.Errorf("the current job has the tag %+v", j.VersionTag)
	}
	w.job("web")
	if j := w.snap().Job(nil, "default", "web"); j.VersionTag != nil {
		t.Errorf("a new version has the tag %+v", j.VersionTag)
	}
}

// A tagged version is kept, and goes with the other old ones when its tag is removed.
func TestTaggedVersionIsKept(t *testing.T) {
	w := newWorld(t)
	w.job("web")
	if err := w.tag("good", 0); err != nil {
		t.Fatal(err)
	}
	for range 8 {
		w.job("web")
	}
	if got := w.numbers("web"); got != " 8 7 6 5 4 3 0" {
		t.Errorf("versions%s, want the tagged one and the last six", got)
	}
	if err := w.tag("good", -1); err != nil {
		t.Fatal(err)
	}
	if got := w.numbers("web"); got != " 8 7 6 5 4 3" {
		t.Errorf("versions%s after the tag was removed, want the last six", got)
	}
}

// The newest stable version is kept, because a failed deployment reverts to it.
func TestStableVersionIsKept(t *testing.T) {
	w := newWorld(t)
	w.job("web")
	w.ok(w.SetJobStability(w.next(),
		&message.JobStabilityRequest{JobID: "web", Stable: true, WriteRequest: message.WriteRequest{Namespace: "default"}}))
	for range 8 {
		w.job("web")
	}
	if got := w.numbers("web"); got != " 8 7 6 5 4 0" {
		t.Errorf("versions%s, want the stable one and the last five", got)
	}
}
