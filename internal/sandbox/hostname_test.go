package sandbox_test

import (
	"os"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/internal/sandbox"
)

// A program has a host name of its own, and cannot change that of the node.
func TestHostname(t *testing.T) {
	p := newPlaces(t)
	before, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	policy := p.policy(&sandbox.Mounts{Proc: true})
	policy.Hostname = "web-1.example"
	if r := runPolicy(t, policy, "cat /proc/sys/kernel/hostname"); r.reason != "" || strings.TrimSpace(r.out) != policy.Hostname {
		t.Errorf("program = %+v, want %s", r, policy.Hostname)
	}
	if after, err := os.Hostname(); err != nil || after != before {
		t.Errorf("the node's name is %q now, %v, want %q", after, err, before)
	}
	policy.Hostname = strings.Repeat("x", 65)
	if err := policy.Validate(); err == nil || !strings.Contains(err.Error(), "host name") {
		t.Errorf("Validate() of a long name = %v", err)
	}
}
