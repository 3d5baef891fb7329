package operator

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// The columns of what keys encrypt are shown if there is something to show.
func TestRootKeyTable_Encrypts(t *testing.T) {
	for name, c := range map[string]struct {
		keys []*api.RootKeyMeta
		want []string // the end of each line
	}{
		"nothing":   {[]*api.RootKeyMeta{{KeyID: "k"}}, []string{"Publish Time", "<none>"}},
		"variables": {[]*api.RootKeyMeta{{KeyID: "k", Variables: 3}}, []string{"Variables", "3"}},
		"volumes":   {[]*api.RootKeyMeta{{KeyID: "k", Volumes: 2}, {KeyID: "l"}}, []string{"CSI Volumes", "2", "0"}},
	} {
		lines := strings.Split(strings.TrimSpace(rootKeyTable(c.keys, term.Short)), "\n")
		if len(lines) != len(c.want) {
			t.Errorf("%s: the table is %q", name, lines)
			continue
		}
		for i, line := range lines {
			if !strings.HasSuffix(strings.TrimSpace(line), c.want[i]) {
				t.Errorf("%s: line %d is %q, want the end %q", name, i, line, c.want[i])
			}
		}
	}
}
