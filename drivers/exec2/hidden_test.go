package exec2_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"
)

// TestAgentDirectoryIsHidden: no task sees the supervisor's directory, and none can be granted a
// path in it, also through a link.
func TestAgentDirectoryIsHidden(t *testing.T) {
	agentHidden(t, newFixture(t, nil))
}

func agentHidden(t *testing.T, f *fixture) {
	t.Helper()
	dir := f.super.Dir()
	f.run(sh(f, "true")).want(t, 0, "") // a supervisor has made its files
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
	if out := f.run(cfg); out.stdout != "end\n" {
		t.Errorf("with everything unveiled the task reads %q", out.stdout)
	}
}

func unveil(block map[string]cty.Value, path string, set func(cty.Value)) {
	block["unveil"] = list([]string{path})
	set(cty.ObjectVal(block))
}
