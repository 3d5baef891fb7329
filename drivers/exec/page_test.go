package exec_test

import (
	"os"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2/hcldec"

	"github.com/open-nomad/open-nomad/drivers/exec"
	"github.com/open-nomad/open-nomad/drivers/java"
	"github.com/open-nomad/open-nomad/drivers/qemu"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// TestPages checks that the pages for users have every option.
func TestPages(t *testing.T) {
	for _, k := range []*drivers.Kind{exec.Kind(), java.Kind(), qemu.Kind()} {
		page, err := os.ReadFile("../../website/content/docs/drivers/" + k.Name + ".md")
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range []hcldec.Spec{k.ConfigSpec, k.TaskSpec} {
			for _, a := range hcldec.ImpliedSchema(spec).Attributes {
				if !strings.Contains(string(page), "\n| `"+a.Name+"` |") {
					t.Errorf("%s.md: no row of a table is for %s", k.Name, a.Name)
				}
			}
		}
	}
}
