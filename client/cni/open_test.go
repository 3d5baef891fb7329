package cni_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/client/cni"
)

// TestWritableByEveryUser checks that no user of the node can replace what runs as root.
func TestWritableByEveryUser(t *testing.T) {
	dir := t.TempDir()
	plugin := write(t, dir, "plugin", "#!/bin/sh\ntouch "+filepath.Join(dir, "ran")+"; echo v1.2.3\n", 0o755)
	conf := write(t, dir, "10-own.conf", `{"cniVersion": "0.4.0", "name": "own", "type": "plugin"}`, 0o644)
	chmod := func(mode os.FileMode) {
		t.Helper()
		for _, file := range []string{plugin, conf} {
			if err := os.Chmod(file, mode); err != nil { // the umask does not apply
				t.Fatal(err)
			}
		}
	}
	chmod(0o777)
	if path, err := (&cni.Exec{}).FindInPath("plugin", []string{dir}); err == nil || !strings.Contains(err.Error(), "chmod o-w") {
		t.Errorf("FindInPath() = %q, %v", path, err)
	}
	if got, err := cni.Versions(t.Context(), []string{dir}); err != nil || len(got) != 0 {
		t.Errorf("Versions() = %v, %v", got, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
		t.Error("the plugin was run")
	}
	if all, errs := cni.Networks(dir); len(all) != 0 || len(errs) != 1 || !strings.Contains(errs[0].Error(), "chmod o-w") {
		t.Errorf("Networks() = %v, %v", all, errs)
	}
	chmod(0o775)
	if _, err := (&cni.Exec{}).FindInPath("plugin", []string{dir}); err != nil {
		t.Error(err)
	}
	if got, err := cni.Versions(t.Context(), []string{dir}); err != nil || got["plugin"] != "1.2.3" {
		t.Errorf("Versions() = %v, %v", got, err)
	}
	if all, errs := cni.Networks(dir); len(all) != 1 || len(errs) != 0 {
		t.Errorf("Networks() = %v, %v", all, errs)
	}
}
