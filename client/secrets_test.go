package client_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/open-nomad/open-nomad/client/clienttest"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// A plugin of secret blocks that does not answer delays no other fingerprint.
func TestReload_SecretPluginHangs(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: to confine a plugin")
	}
	f, dir := clienttest.StartServer(t), clienttest.Dir(t)
	install := func(dir, text string) {
		t.Helper()
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "own"), []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cfg := clienttest.Config(dir, f.Addr())
	cfg.CommonPluginDir, cfg.HostVolumePluginDir = filepath.Join(dir, "common"), filepath.Join(dir, "volumes")
	n := clienttest.Start(t, cfg)
	f.Until(t, "the node registers", func() bool { return f.Node != nil })
	install(filepath.Join(cfg.CommonPluginDir, "secrets"), "exec sleep 1000")
	calls := func() int {
		runs, err := os.ReadDir(filepath.Join(cfg.StateDir, "secret_plugins"))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return len(runs)
	}
	n.Reload()
	testpace.Until(t, "the plugin is called", func() bool { return calls() > 0 })
	install(cfg.HostVolumePluginDir, `echo '{"version": "1.2.3"}'`)
	n.Reload()
	f.Until(t, "the plugin of volumes", func() bool { return f.Node.Attributes["plugins.host_volume.own.version"] == "1.2.3" })
	if calls() == 0 {
		t.Error("the plugin of secret blocks has ended before")
	}
}
