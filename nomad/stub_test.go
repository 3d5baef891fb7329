package nomad_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
)

// The address of a node in lists has no port.
func TestAddressOfNodeStub(t *testing.T) {
	for addr, want := range map[string]string{"10.0.0.1:4646": "10.0.0.1", "[fe80::1]:4646": "fe80::1", "node.example:80": "node.example",
		"10.0.0.1": "10.0.0.1", "": ""} {
		if got := (&nomad.Node{HTTPAddr: addr}).Stub(nil).Address; got != want {
			t.Errorf("Address of %q = %q, want %q", addr, got, want)
		}
	}
}
