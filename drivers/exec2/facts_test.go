package exec2_test

import (
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/drivers/exec2/config"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// level returns the isolation level of the instance, and what it lacks for a higher one.
func level(t *testing.T, d drivers.Isolator) (string, string) {
	t.Helper()
	i, err := d.Isolates("", nil)
	if err != nil {
		t.Fatal(err)
	}
	return i.Level().String(), drivers.Texts(i.Lacks(drivers.LevelStrict))
}

// TestLevel checks the level of a root agent that lacks nothing.
func TestLevel(t *testing.T) {
	f := newFixture(t, nil)
	if got, lacks := level(t, f.Driver); got != "strict" || lacks != "" {
		t.Errorf("level = %s, lacks %q, want strict", got, lacks)
	}
	sandboxMatches(t, f.Driver, f)
}

// TestLevelOfTasks checks the level of tasks by their user and config, on the node and as servers
// compute it. They differ in what only the node knows.
func TestLevelOfTasks(t *testing.T) {
	files := profiles(t, map[string]string{"readonly": noDirectories})
	f := newFixture(t, settings{"unveil_by_task": cty.True, "allow_root": cty.True, "seccomp_profiles": files,
		"allow_task_seccomp": list([]string{"readonly"})})
	type block = map[string]any
	for name, tc := range map[string]struct {
		user   string
		config block
		want   string // on the node
		most   string // on servers; as want if empty
	}{
		"nothing":      {"", block{}, "strict", ""},
		"dynamic user": {"nomad-80000", block{}, "strict", ""},
		"named user":   {"nobody", block{}, "restricted", ""},
		"number":       {"65534", block{}, "restricted", ""},
		"root":         {"root", block{}, "baseline", ""},
		"0":            {"0", block{}, "baseline", ""},
		"zeros":        {"000", block{}, "baseline", ""},
		"unknown user": {"no-such-user", block{}, "baseline", "restricted"},
		"reads":        {"", block{"unveil": []any{"r:/etc/passwd", "rx:/opt"}}, "strict", ""},
		"writes":       {"", block{"unveil": []any{"r:/etc", "rwc:/srv"}}, "restricted", ""},
		"creates":      {"", block{"unveil": []string{"c:/srv"}}, "restricted", ""},
		"own directory": {"", block{"unveil": []any{"rwc:${NOMAD_TASK_DIR}/x", `rw:${env["NOMAD_ALLOC_DIR"]}`,
			"rw:${env.NOMAD_SECRETS_DIR}"}}, "strict", ""},
		"leaves it":       {"", block{"unveil": []any{"rw:${NOMAD_TASK_DIR}/../../../x"}}, "restricted", ""},
		"longer name":     {"", block{"unveil": []any{"rw:${NOMAD_TASK_DIR}x"}}, "restricted", ""},
		"other reference": {"", block{"unveil": []any{"rw:${meta.path}"}}, "restricted", ""},
		"a device":        {"", block{"unveil": []any{"r:/dev/../dev/sda"}}, "none", ""},
		"all devices":     {"", block{"unveil": []any{"r:/"}}, "none", ""},
		"harmless device": {"", block{"unveil": []any{"r:/dev/urandom"}}, "strict", ""},
		"not a list":      {"", block{"unveil": 7}, "none", ""},
		"not a string":    {"", block{"unveil": []any{7}}, "none", ""},
		"weak profile":    {"", block{"seccomp_profile": "readonly"}, "host", "strict"},
		"unknown profile": {"", block{"seccomp_profile": "no"}, "host", "strict"},
	} {
		i, err := f.Driver.Isolates(tc.user, tc.config)
		if got := i.Level().String(); err != nil || got != tc.want {
			t.Errorf("%s: level = %s, %v, want %s", name, got, err, tc.want)
		}
		most := tc.most
		if most == "" {
			most = tc.want
		}
		if got := config.Kind().Isolates(tc.user, tc.config).Level().String(); got != most {
			t.Errorf("%s: level on servers = %s, want %s", name, got, most)
		}
	}
}

// TestLevelOfConfiguration checks that what the operator grants to every task counts, too.
func TestLevelOfConfiguration(t *testing.T) {
	f := newFixture(t, settings{"unveil_paths": list([]string{"rwc:/srv"})})
	if got, lacks := level(t, f.Driver); got != "restricted" || !strings.Contains(lacks, "filesystem") {
		t.Errorf("level = %s, lacks %q, want restricted for want of own files", got, lacks)
	}
	if err := f.SetConfig(cty.ObjectVal(settings{"require_abi": cty.NumberIntVal(99)})); err != nil {
		t.Fatal(err)
	}
	if i, err := f.Driver.Isolates("", nil); err == nil || i.Level() != drivers.LevelNone {
		t.Errorf("Isolates() of an unhealthy instance = %v, %v, want an error", i.Level(), err)
	}
}
