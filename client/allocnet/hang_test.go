package allocnet_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/open-nomad/open-nomad/client/clienttest"
	"github.com/open-nomad/open-nomad/client/netns"
	"github.com/open-nomad/open-nomad/nomad"
)

// An earlier agent has left networks whose plugin hangs. The node is registered at once, its task goes on, and the other
// networks are removed. The next agent starts with the same records.
func TestNetworks_HangingPlugin(t *testing.T) {
	f := clienttest.StartServer(t)
	cfg := clienttest.Config(clienttest.Dir(t), f.Addr())
	plugins := t.TempDir()
	cfg.Networks.Plugins = []string{plugins}
	hangs := filepath.Join(plugins, "started")
	for name, script := range map[string]string{"hangs": "touch " + hangs + "; sleep 1000", "works": "exit 0"} {
		if err := os.WriteFile(filepath.Join(plugins, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(cfg.StateDir, "network")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	record := func(id, plugin string) string {
		type object = map[string]any
		raw, err := json.Marshal(object{"Alloc": id, "Path": "/gone",
			"Config": object{"cniVersion": "1.0.0", "name": plugin, "plugins": []object{{"type": plugin}}}})
		file := filepath.Join(dir, id+".json")
		if err == nil {
			err = os.WriteFile(file, raw, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	hanging := []string{record("one", "hangs"), record("two", "hangs"), record("three", "hangs")}
	running := clienttest.Alloc(map[string]any{"run_for": "1h"})
	f.Place(running)
	for range 2 {
		if err := os.RemoveAll(hangs); err != nil {
			t.Fatal(err)
		}
		works := record("four", "works")
		n := clienttest.Start(t, cfg)
		<-n.Ready()
		f.Until(t, "the allocation runs", func() bool { return f.Status(running) == nomad.AllocClientStatusRunning })
		f.Until(t, "the plugin hangs", func() bool { return exists(hangs) })
		f.Until(t, "the other network is removed", func() bool { return !exists(works) })
		for _, file := range hanging {
			if !exists(file) {
				t.Errorf("%s is removed although its plugin hangs", file)
			}
		}
		if err := n.Stop(); err != nil {
			t.Error(err)
		}
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// Network namespaces of an agent that died are removed at the next start.
func TestNetworks_LeftBehind(t *testing.T) {
	if !netns.Possible() {
		t.Skip("needs root")
	}
	dir := clienttest.Dir(t)
	f := clienttest.StartServer(t)
	cfg := clienttest.Config(dir, f.Addr())
	left := netns.New(filepath.Join(cfg.StateDir, "netns"))
	path, err := left.Make(nomad.NewID())
	if err != nil {
		t.Fatal(err)
	}
	n := clienttest.Start(t, cfg)
	<-n.Ready()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the namespace of an unknown allocation still exists: %v", err)
	}
}
