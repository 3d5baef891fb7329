package server

import (
	"strings"
	"testing"
)

func TestMetricKey(t *testing.T) {
	for method, want := range map[string]string{
		"Job.Register":          "nomad.job.register",
		"Node.UpdateStatus":     "nomad.client.update_status",
		"Alloc.SignIdentities":  "nomad.alloc.sign_identities",
		"ACL.WhoAmI":            "nomad.acl.who_am_i",
		"System.GarbageCollect": "nomad.system.garbage_collect",
	} {
		if got := strings.Join(metricKey(method), "."); got != want {
			t.Errorf("metricKey(%q) = %s, want %s", method, got, want)
		}
	}
}
