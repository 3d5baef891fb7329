package jobrules_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
)

func TestLogSinks(t *testing.T) {
	for _, tc := range []struct {
		sinks    []string
		disabled bool
		want     string // "" for a valid job
	}{
		{[]string{"journald"}, false, ""},
		{[]string{"otlp", "journald"}, false, ""},
		{[]string{"syslog"}, false, `sinks of logs has "syslog": use journald or otlp`},
		{[]string{"otlp", "otlp"}, false, `sinks of logs has "otlp" twice`},
		{[]string{"otlp"}, true, "logs is disabled, so that its sinks get nothing"},
	} {
		j := sample("service")
		j.TaskGroups[0].Tasks[0].LogConfig = &nomad.LogConfig{MaxFiles: 1, MaxFileSizeMB: 1, Disabled: tc.disabled, Sinks: tc.sinks}
		jobrules.Canonicalize(j)
		err := jobrules.Validate(j)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("sinks %q: %v, want %q", tc.sinks, err, tc.want)
		}
	}
}
