package fsm

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad/message"
)

// unmeasured lists the commands whose duration is measured elsewhere or not at all.
var unmeasured = []message.CommandType{message.VarApplyStateRequestType, message.ReconcileJobSummariesRequestType}

// Every applied command has a metric, and the list of metrics has the same ones.
func TestCommandsAreMeasured(t *testing.T) {
	text, err := os.ReadFile("../../e2e/testdata/metrics.tsv")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range allCommands() {
		name, ok := measured[c.number]
		if want := c.apply != nil && c.body != nil && !slices.Contains(unmeasured, c.number); ok != want {
			t.Errorf("%s: measured = %v, want %v", c.name, ok, want)
		}
		if ok {
			names = append(names, "nomad.nomad.fsm."+name)
		}
	}
	var listed []string
	for line := range strings.Lines(string(text)) {
		if f := strings.Split(strings.TrimSpace(line), "\t"); f[len(f)-1] == "fsm" {
			listed = append(listed, f[0])
		}
	}
	slices.Sort(names)
	slices.Sort(listed)
	if !slices.Equal(names, listed) {
		t.Errorf("the commands have the metrics\n%s\nthe list has\n%s", strings.Join(names, "\n"), strings.Join(listed, "\n"))
	}
}
