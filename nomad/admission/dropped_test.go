package admission

import (
	"errors"
	"testing"

	"github.com/open-nomad/open-nomad/nomad/admission/testjobs"
)

// A region with servers of another build does not accept a job with fields that they drop.
func TestDroppedFieldsNeedOurServers(t *testing.T) {
	refused := errors.New("a server is of another build")
	want := map[string]string{"sinks": `sinks in the logs block of task "t"`, "verify": `verify in an artifact of task "t"`,
		"owner": `owner in a volume_mount of task "t"`}
	for name, job := range testjobs.UnknownToNomad() {
		t.Run(name, func(t *testing.T) {
			asked := ""
			a := New(Config{OnlyOurs: func(feature string) error { asked = feature; return refused }})
			err := a.dropped(job)
			if asked != want[name] || (asked != "") != errors.Is(err, refused) {
				t.Errorf("dropped() = %v after asking for %q, want %q", err, asked, want[name])
			}
		})
	}
}
