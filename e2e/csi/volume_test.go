package csi_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/e2e/harness"
)

// command runs a command of the CLI.
func (r *rig) command(args ...string) string {
	r.t.Helper()
	out, err := harness.Command(r.t, r.Server, args...)
	if err != nil {
		r.t.Fatalf("nomad %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// TestVolume creates a volume with the CLI, writes data to it on one node and reads it on the other, and deletes it.
func TestVolume(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{nodes: []string{"a", "b"}})
	spec := filepath.Join(r.Dir, "volume.hcl")
	harness.WriteFile(t, spec, `id = "data"
name = "data"
type = "csi"
plugin_id = "example"
capacity_min = "1MiB"
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}
`)
	if out := r.command("volume", "create", spec); !strings.Contains(out, `with ID data`) {
		t.Errorf("volume create: %q", out)
	}
	writer, _ := r.completes(user{id: "writer", source: "data", node: "a", script: "echo written by $NOMAD_ALLOC_ID >/data/file && ls -ld /data"})
	r.free("data")
	r.noMounts("a")
	_, text := r.completes(user{id: "reader", source: "data", node: "b", script: "cat /data/file"})
	if want := "written by " + writer.ID + "\n"; text != want {
		t.Errorf("the reader on the other node read %q, want %q", text, want)
	}
	r.free("data")
	if out := r.command("volume", "delete", "data"); !strings.Contains(out, `Successfully deleted volume "data"!`) {
		t.Errorf("volume delete: %q", out)
	}
	if len(r.volumes()) != 0 {
		t.Error("the volume is still listed")
	}
	left, err := filepath.Glob(filepath.Join(r.storage(), "*", "*", "file"))
	if err != nil || len(left) != 0 {
		t.Errorf("the data is still in the storage system: %q, %v", left, err)
	}
	harness.PurgeAll(t, r.Server)
	harness.Within(t, harness.Patience, "the plugin is collected with its job", func() bool {
		if err := r.Server.Client.System().GarbageCollect(); err != nil {
			t.Error(err)
		}
		_, _, err := r.Server.Client.CSIPlugins().Info(pluginID, nil)
		return harness.StatusCode(err) == 404
	})
	for _, node := range []string{"a", "b"} {
		harness.Within(t, harness.Patience, "no socket of a plugin is left on "+node, func() bool {
			left, err := os.ReadDir(r.state(node, "plugins"))
			return err == nil && len(left) == 0
		})
	}
}
