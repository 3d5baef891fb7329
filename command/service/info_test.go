package service

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
)

// -verbose shows the metadata, the status and the checks of each registration. Output of checks is one short line.
func TestLong(t *testing.T) {
	got := long([]*api.ServiceRegistration{
		{ID: "one", ServiceName: "web", Address: "10.0.0.5", Port: 80, Status: "critical",
			Meta: map[string]string{"rack": "r1", "external-source": "nomad"},
			Checks: []*api.ServiceCheckState{
				{Name: "up", Type: "http", Status: "passing", Output: "HTTP GET\nok \x1b[2J|"},
				{Name: "db", Type: "tcp", Status: "critical", Output: strings.Repeat("é", 121)},
			}},
		{ID: "two", ServiceName: "web"},
	})
	for _, want := range []string{
		"Meta = external-source=nomad, rack=r1\n", "Status = critical\n", "\n\nChecks\nName Type Status Output\n",
		"up http passing HTTP GET ok \\x1b[2J¦\n", "db tcp critical " + strings.Repeat("é", 120) + "…\n",
		"ID = two\n", "Meta = <none>\nStatus = passing",
	} {
		if !strings.Contains(squeezed(got), want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Count(got, "Checks") != 1 {
		t.Errorf("a registration without checks has a table:\n%s", got)
	}
}

// squeezed returns the text with one space for several.
func squeezed(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.Join(strings.Fields(line), " ")
	}
	return strings.Join(lines, "\n")
}
