package drivers_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// TestLevel removes one fact at a time from an isolation that has all.
func TestLevel(t *testing.T) {
	type isolation = drivers.Isolation
	if drivers.Strictest().Level() != drivers.LevelStrict || (isolation{}).Level() != drivers.LevelNone {
		t.Errorf("levels of all facts and of none = %s and %s", drivers.Strictest().Level(), isolation{}.Level())
	}
	for name, c := range map[string]struct {
		edit func(*isolation)
		want string
	}{
		"capabilities":           {func(i *isolation) { i.Capabilities = drivers.CapabilitiesAny }, "none"},
		"devices":                {func(i *isolation) { i.Devices = false }, "none"},
		"files":                  {func(i *isolation) { i.Files = drivers.FilesNode }, "host"},
		"PID":                    {func(i *isolation) { i.PID = false }, "host"},
		"IPC":                    {func(i *isolation) { i.IPC = false }, "host"},
		"mounts":                 {func(i *isolation) { i.Mounts = false }, "host"},
		"seccomp":                {func(i *isolation) { i.Seccomp = false }, "host"},
		"root":                   {func(i *isolation) { i.User = drivers.UserRoot }, "baseline"},
		"limits":                 {func(i *isolation) { i.Limits = false }, "baseline"},
		"sockets":                {func(i *isolation) { i.Sockets = false }, "baseline"},
		"default capabilities":   {func(i *isolation) { i.Capabilities = drivers.CapabilitiesDefault }, "baseline"},
		"new privileges":         {func(i *isolation) { i.NoPrivileges = false }, "baseline"},
		"shared user":            {func(i *isolation) { i.User = drivers.UserShared }, "restricted"},
		"granted files":          {func(i *isolation) { i.Files = drivers.FilesGranted }, "restricted"},
		"the lowest fact counts": {func(i *isolation) { i.User, i.Devices = drivers.UserShared, false }, "none"},
	} {
		i := drivers.Strictest()
		c.edit(&i)
		l := i.Level()
		if l.String() != c.want {
			t.Errorf("%s: level %s, want %s", name, l, c.want)
		}
		if err := i.CheckLevel(l); err != nil {
			t.Errorf("%s: CheckLevel() of its own level = %v", name, err)
		}
		missing := i.Lacks(drivers.LevelStrict)
		if err := i.CheckLevel(l + 1); err == nil || !strings.Contains(err.Error(), missing[0].Name+" ("+missing[0].Text+")") {
			t.Errorf("%s: CheckLevel() of the next level = %v, want the fact %+v", name, err, missing[0])
		}
	}
}

func TestParseLevel(t *testing.T) {
	for n, name := range drivers.Levels() {
		if l, err := drivers.ParseLevel(name); err != nil || int(l) != n || l.String() != name {
			t.Errorf("ParseLevel(%s) = %v, %v", name, l, err)
		}
	}
	for _, name := range []string{"", "Strict", "level 3"} {
		if _, err := drivers.ParseLevel(name); err == nil || !strings.Contains(err.Error(), "none, host, baseline, restricted, strict") {
			t.Errorf("ParseLevel(%q) = %v, want an error with the names", name, err)
		}
	}
}

func TestIsOwn(t *testing.T) {
	for path, want := range map[string]bool{
		"${NOMAD_TASK_DIR}": true, "${NOMAD_ALLOC_DIR}/a/../b": true, `${env["NOMAD_SECRETS_DIR"]}/x`: true, "${env.NOMAD_TASK_DIR}/x": true,
		"${NOMAD_TASK_DIR}/..": false, "${NOMAD_TASK_DIR}/a/../../b": false, "${NOMAD_TASK_DIR}x": false, "/x${NOMAD_TASK_DIR}": false,
		"${NOMAD_META_X}": false, "": false, "/a": false,
	} {
		if got := drivers.IsOwn(path); got != want {
			t.Errorf("IsOwn(%q) = %t, want %t", path, got, want)
		}
	}
}

// TestPage compares the table of the page with Requirements.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../website/content/docs/isolation.md")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"| `none` | | no guarantee |"}
	for _, r := range drivers.Requirements() {
		want = append(want, fmt.Sprintf("| `%s` | %s | %s |", r.Level, r.Name, r.Text))
	}
	_, table, _ := strings.Cut(string(page), "| level | part | what must hold |\n|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	if got := strings.Split(table, "\n"); !slices.Equal(got, want) {
		t.Errorf("the table of isolation.md is\n%s\nwant\n%s", table, strings.Join(want, "\n"))
	}
	if !strings.Contains(string(page), "`"+strings.Join(drivers.Levels(), "` < `")+"`") {
		t.Error("isolation.md does not list the levels in their order")
	}
}
