package jobrules_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
)

func TestActions(t *testing.T) {
	for name, c := range map[string]struct {
		actions []*nomad.Action
		want    string // part of the error, "" for none
	}{
		"valid":      {[]*nomad.Action{{Name: "a", Command: "/bin/a", Args: []string{"${x}"}}, {Name: "b", Command: "b"}}, ""},
		"no name":    {[]*nomad.Action{{Command: "/bin/a"}}, "action 1 has no name: set the label"},
		"bad name":   {[]*nomad.Action{{Name: "a/b", Command: "/bin/a"}}, `action "a/b": the name must not contain /`},
		"no command": {[]*nomad.Action{{Name: "a"}}, `action "a": missing command`},
		"twice":      {[]*nomad.Action{{Name: "a", Command: "x"}, {Name: "a", Command: "y"}}, `action "a": duplicate name in the task`},
		"NUL":        {[]*nomad.Action{{Name: "a", Command: "x", Args: []string{"\x00"}}}, "NUL"},
	} {
		j := sample("service")
		j.TaskGroups[0].Tasks[0].Actions = c.actions
		jobrules.Canonicalize(j)
		err := jobrules.Validate(j)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: Validate() = %v, want %q", name, err, c.want)
		}
	}
}
