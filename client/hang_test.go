package client_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
)

// An earlier agent has left networks whose plugin hangs. The node is registered at once, its task goes on, and the other
// networks are removed. The next agent starts with the same records.
func TestHangingPluginAtStart(t *testing.T) {
	f := startServer(t)
	cfg := config(nodeDir(t), f.addr())
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
		raw, err := json.Marshal(object{"Alloc": id, "Path": "/gone", "Config": object{"cniVersion": "1.0.0", "name": plugin, "plugins": []object{{"type": plugin}}}})
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
	running := alloc(map[string]any{"run_for": "1h"})
	f.place(running)
	for range 2 {
		if err := os.RemoveAll(hangs); err != nil {
			t.Fatal(err)
		}
		works := record("four", "works")
		n := start(t, cfg)
		<-n.Ready()
		f.until(t, "the allocation runs", func() bool { return status(f, running) == nomad.AllocClientStatusRunning })
		f.until(t, "the plugin hangs", func() bool { return exists(hangs) })
		f.until(t, "the other network is removed", func() bool { return !exists(works) })
		for _, file := range hanging {
			if !exists(file) {
				t.Errorf("%s is removed although its plugin hangs", file)
			}
		}
		if err := n.stop(); err != nil {
			t.Error(err)
		}
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
