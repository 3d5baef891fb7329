package jobdiff_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/jobdiff"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// TestVault checks the object of a diff for a vault block, and that each change of it replaces the allocations.
func TestVault(t *testing.T) {
	block := nomad.Vault{Role: "a", Cluster: "default", ChangeMode: "restart", Env: true}
	job := func(v *nomad.Vault) *nomad.Job {
		j := diffJob()
		j.TaskGroups[0].Tasks[0].Vault = v
		return j
	}
	with := func(edit func(v *nomad.Vault)) *nomad.Vault {
		v := block
		edit(&v)
		return &v
	}
	for name, c := range map[string]struct {
		old, new *nomad.Vault
		want     []string
	}{
		"added": {nil, &block, []string{"Added {Vault}", `Added Role: "" => "a"`, `Added ChangeMode: "" => "restart"`, `Added Env: "" => "true"`,
			`Added DisableFile: "" => "false"`, `Added AllowTokenExpiration: "" => "false"`, `Added Cluster: "" => "default"`}},
		"deleted": {&block, nil, []string{"Deleted {Vault}", `Deleted Role: "a" => ""`}},
		"role":    {&block, with(func(v *nomad.Vault) { v.Role = "b" }), []string{"Edited {Vault}", `Edited Role: "a" => "b"`}},
		"env":     {&block, with(func(v *nomad.Vault) { v.Env = false }), []string{`Edited Env: "true" => "false"`}},
		"mode":    {&block, with(func(v *nomad.Vault) { v.ChangeMode, v.ChangeSignal = "signal", "SIGHUP" }), []string{`Edited ChangeMode`, `Added ChangeSignal`}},
		"file":    {&block, with(func(v *nomad.Vault) { v.DisableFile = true }), []string{`Edited DisableFile`}},
		"expires": {&block, with(func(v *nomad.Vault) { v.AllowTokenExpiration = true }), []string{`Edited AllowTokenExpiration`}},
	} {
		d := jobdiff.Compare(job(c.old), job(c.new))
		jobdiff.Annotate(d, nil)
		got := show(d)
		for _, want := range append(c.want, "Edited task t forces create/destroy update") {
			if !strings.Contains(got, want) {
				t.Errorf("%s: diff =\n%s\nwant %s", name, got, want)
			}
		}
	}
	task := jobdiff.Compare(job(nil), job(&block)).TaskGroups[0].Tasks[0]
	var empty []string
	for _, f := range task.Objects[0].Fields {
		if f.Type == message.DiffTypeNone {
			empty = append(empty, f.Name)
		}
	}
	if got := strings.Join(empty, " "); got != "ChangeSignal Namespace" {
		t.Errorf("empty fields of an added block = %q", got)
	}
	if got := show(jobdiff.Compare(job(&block), job(with(func(*nomad.Vault) {})))); strings.Contains(got, "Vault") {
		t.Errorf("equal blocks: diff =\n%s", got)
	}
}
