package monitor

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

func TestExplanation_Counts(t *testing.T) {
	got := Explanation(&api.JobExplanation{Groups: []*api.GroupExplanation{{Name: "api", NodeCount: 4, Fits: 1,
		Failed: []*api.CheckCount{{Check: "constraint", Need: "${meta.rack} = r1", Nodes: 3}}}}}, term.Short)
	lines := strings.Split(got, "\n")
	for i, want := range []string{`Task Group "api": 1 of 4 nodes can take one more allocation`, "Check Nodes Detail",
		"constraint 3 ${meta.rack} = r1"} {
		if len(lines) != 3 || strings.Join(strings.Fields(lines[i]), " ") != want {
			t.Errorf("Explanation() = %q, want line %d to be %q", got, i, want)
		}
	}
}
