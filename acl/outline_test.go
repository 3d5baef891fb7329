package acl_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/acl"
)

// TestOutline checks the outline of a policy, with the implied capabilities.
func TestOutline(t *testing.T) {
	p, err := acl.Parse(`
namespace "prod-*" {
  policy = "scale"
  capabilities = ["host-volume-create", "scale-job"]
  variables {
    path "a/*" { capabilities = ["read"] }
  }
}
namespace "x" { capabilities = ["deny"] }
node_pool "p" { policy = "write" }
operator { policy = "read" }
plugin { policy = "list" }
`)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range p.Outline() {
		got = append(got, fmt.Sprintf("%s %q %q %q %v", o.Kind, o.Space, o.Name, o.Policy, o.Capabilities))
	}
	want := []string{
		`variables "prod-*" "a/*" "" [read list]`,
		`namespace "" "prod-*" "scale" [host-volume-create scale-job host-volume-read list-scaling-policies read-job read-job-scaling read-scaling-policy submit-recommendation]`,
		`namespace "" "x" "" [deny]`,
		`node_pool "" "p" "write" [delete read write]`,
		`operator "" "" "read" [keyring-read license-read]`,
		`plugin "" "" "list" []`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("Outline() =\n%q, want\n%q", got, want)
	}
}
