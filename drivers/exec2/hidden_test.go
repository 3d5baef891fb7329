package exec2_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/drivers/exec2"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// TestAgentDirectoryIsHidden checks that no task sees the supervisor's directory, and that a path
// in it cannot be granted, also through a link.
func TestAgentDirectoryIsHidden(t *testing.T) {
	agentHidden(t, newFixture(t, nil))
}

func agentHidden(t *testing.T, f *fixture) {
	t.Helper()
	dir := f.super.Dir()
	f.run(sh(f, "true")).Want(t, 0, "") // starts a supervisor, which makes its files
	link := filepath.Join(f.dir, "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, filepath.Join(dir, "secret"), link} {
		cfg := sh(f, "true")
		unveil(cfg.Config.AsValueMap(), "r:"+path, func(v cty.Value) { cfg.Config = v })
		if _, err := f.StartTask(t.Context(), cfg); err == nil || path != link && !strings.Contains(err.Error(), "agent's own files") {
			t.Errorf("unveil %s: StartTask() = %v, want a refusal", path, err)
		}
	}
	cfg := sh(f, "cat "+dir+"/secret; ls "+dir+"; echo end")
	unveil(cfg.Config.AsValueMap(), "rwxc:/", func(v cty.Value) { cfg.Config = v })
	if out := f.run(cfg); out.Stdout != "end\n" {
		t.Errorf("with everything unveiled the task reads %q", out.Stdout)
	}
}

// TestOwnDirectoryIsHidden checks a directory of the agent outside of the allocations' parent. It
// looks empty to a task with everything unveiled, also to one of the agent's user.
func TestOwnDirectoryIsHidden(t *testing.T) {
	ownHidden(t, newFixture(t, nil))
}

func ownHidden(t *testing.T, f *fixture) {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "exec2-own-") // the task has a private /tmp
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(filepath.Join(dir, "state"), []byte("state\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	task := func() *drivers.TaskConfig {
		cfg := sh(f, "cat "+dir+"/state; ls "+dir+"; echo end")
		unveil(cfg.Config.AsValueMap(), "rwxc:/", func(v cty.Value) { cfg.Config = v })
		return cfg
	}
	if out := f.run(task()); out.Stdout != "state\nstate\nend\n" {
		t.Fatalf("a directory that is not the agent's: the task reads %q", out.Stdout)
	}
	with := *f
	with.Driver = exec2.New(exec2.Config{Name: exec2.Name, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Supervisor: f.super,
		AgentDirs: []string{dir}})
	if err := with.SetConfig(cty.ObjectVal(settings{"unveil_by_task": cty.True, "allow_unprivileged": cty.True})); err != nil {
		t.Fatal(err)
	}
	if out := with.run(task()); out.Stdout != "end\n" {
		t.Errorf("the agent's directory: the task reads %q", out.Stdout)
	}
}

func unveil(block map[string]cty.Value, path string, set func(cty.Value)) {
	block["unveil"] = list([]string{path})
	set(cty.ObjectVal(block))
}
