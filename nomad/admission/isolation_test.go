package admission

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/admission/testjobs"
)

// TestIsolated checks which jobs a namespace and their own tasks refuse, and the reasons.
func TestIsolated(t *testing.T) {
	type rules = nomad.NamespaceIsolation
	const place = `job "j", group "g", task "t": `
	for name, tc := range map[string]struct {
		rules  *rules
		change func(*nomad.Task)
		err    string // "" if the job is admitted
		warn   string
	}{
		"no rules": {nil, func(t *nomad.Task) { t.Driver = "raw_exec" }, "", ""},
		"enough":   {&rules{Minimum: "strict", Enforce: true, Warn: "strict"}, func(*nomad.Task) {}, "", ""},
		"raw_exec": {&rules{Minimum: "host", Enforce: true}, func(t *nomad.Task) { t.Driver = "raw_exec" },
			place + `namespace "team" requires isolation "host", driver "raw_exec" gives it "none" at most, which lacks: capabilities (`, ""},
		"not enforced": {&rules{Minimum: "host"}, func(t *nomad.Task) { t.Driver = "raw_exec" }, "",
			place + `namespace "team" recommends isolation "host"`},
		"the stricter": {&rules{Minimum: "restricted", Warn: "host"}, func(t *nomad.Task) { t.User = "root" }, "",
			`recommends isolation "restricted"`},
		"warned": {&rules{Minimum: "baseline", Enforce: true, Warn: "restricted"}, func(t *nomad.Task) { t.User = "root" }, "",
			`gives it "baseline" at most, which lacks: user (an ordinary user)`},
		"root": {&rules{Minimum: "restricted", Enforce: true}, func(t *nomad.Task) { t.User = "root" },
			"lacks: user (an ordinary user)", ""},
		"writable path": {&rules{Minimum: "strict", Enforce: true}, func(t *nomad.Task) { t.Config["unveil"] = []any{"rwc:/srv"} },
			"lacks: filesystem (no files of the node that it can write)", ""},
		"own path": {&rules{Minimum: "strict", Enforce: true},
			func(t *nomad.Task) { t.Config["unveil"] = []any{"rwc:${NOMAD_TASK_DIR}/x"} }, "", ""},
		"instance": {&rules{Minimum: "strict", Enforce: true}, func(t *nomad.Task) { t.Driver = "exec2-open" }, "", ""},
		"external driver": {&rules{Minimum: "host", Enforce: true}, func(t *nomad.Task) { t.Driver = "podman" },
			`driver "podman" gives it "none" at most`, ""},
		"unknown driver": {&rules{Minimum: "host", Enforce: true}, func(t *nomad.Task) { t.Driver = "exec9" },
			`driver "exec9" gives it "none" at most`, ""},
		"task":        {nil, func(t *nomad.Task) { t.User, t.Isolation = "nobody", "strict" }, place + `it requires isolation "strict"`, ""},
		"task has it": {nil, func(t *nomad.Task) { t.User, t.Isolation = "nobody", "restricted" }, "", ""},
		"the higher one": {&rules{Minimum: "host", Enforce: true}, func(t *nomad.Task) { t.User, t.Isolation = "root", "restricted" },
			`it requires isolation "restricted"`, ""},
		"later level": {&rules{Minimum: "perfect", Enforce: true}, func(t *nomad.Task) { t.User = "nobody" },
			`requires isolation "strict"`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			job, ns := testjobs.Exec2(tc.change), &nomad.Namespace{Name: "team", Isolation: tc.rules}
			names := table.Names(func(yield func(*nomad.Node) bool) { yield(testjobs.Node()) })
			err := isolated(ns, job, names)
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("isolated() = %v, want %q", err, tc.err)
			}
			warns := strings.Join(isolationWarnings(ns, job, names), "\n")
			if tc.err == "" && ((warns == "") != (tc.warn == "") || !strings.Contains(warns, tc.warn)) {
				t.Errorf("warnings = %q, want %q", warns, tc.warn)
			}
		})
	}
}

// TestCheckRefusesLevels checks that validation without a server refuses a level that the driver
// does not have, and an unknown one.
func TestCheckRefusesLevels(t *testing.T) {
	for level, want := range map[string]string{"strict": "", "perfect": `isolation: unknown isolation level "perfect"`} {
		errs, _ := Check(testjobs.Exec2(func(t *nomad.Task) { t.Isolation = level }), table)
		if got := strings.Join(errs, "\n"); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: errors %q, want %q", level, got, want)
		}
	}
	errs, _ := Check(testjobs.Exec2(func(t *nomad.Task) { t.Driver, t.Isolation = "raw_exec", "host" }), table)
	if got := strings.Join(errs, "\n"); !strings.Contains(got, `driver "raw_exec" gives it "none" at most`) {
		t.Errorf("raw_exec with isolation host: %q, want a refusal", got)
	}
}

func TestUsesIsolation(t *testing.T) {
	for name, tc := range map[string]struct {
		ns     *nomad.NamespaceIsolation
		change func(*nomad.Task)
		want   bool
	}{
		"no":             {nil, func(*nomad.Task) {}, false},
		"warnings only":  {&nomad.NamespaceIsolation{Minimum: "host", Warn: "strict"}, func(*nomad.Task) {}, false},
		"minimum":        {&nomad.NamespaceIsolation{Minimum: "host", Enforce: true}, func(*nomad.Task) {}, true},
		"claim":          {&nomad.NamespaceIsolation{Claim: true}, func(*nomad.Task) {}, true},
		"task":           {nil, func(t *nomad.Task) { t.Isolation = "host" }, true},
		"identity":       {nil, func(t *nomad.Task) { t.Identity.Isolation = true }, true},
		"named identity": {nil, func(t *nomad.Task) { t.Identities = []*nomad.WorkloadIdentity{{Name: "a", Isolation: true}} }, true},
		"service": {nil, func(t *nomad.Task) {
			t.Services = []*nomad.Service{{Name: "s"}, {Name: "t", Identity: &nomad.WorkloadIdentity{Isolation: true}}}
		}, true},
	} {
		job := testjobs.Exec2(func(*nomad.Task) {})
		tc.change(job.TaskGroups[0].Tasks[0])
		if got := usesIsolation(&nomad.Namespace{Isolation: tc.ns}, job); got != tc.want {
			t.Errorf("%s: usesIsolation() = %t, want %t", name, got, tc.want)
		}
	}
}
