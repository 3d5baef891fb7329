package client_test

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/client"
	"github.com/open-nomad/open-nomad/client/netns"
	"github.com/open-nomad/open-nomad/nomad"
)

// The node reports its volumes, with links resolved at the start.
func TestHostVolumesOfTheNode(t *testing.T) {
	dir := nodeDir(t)
	real, link := filepath.Join(dir, "real"), filepath.Join(dir, "link")
	if err := errors.Join(os.Mkdir(real, 0o755), os.Symlink(real, link)); err != nil {
		t.Fatal(err)
	}
	f := startServer(t)
	cfg := config(dir, f.addr())
	cfg.HostVolumes = map[string]client.HostVolume{"data": {Path: link}, "docs": {Path: real, ReadOnly: true}}
	n := start(t, cfg)
	want := map[string]*nomad.ClientHostVolumeConfig{
		"data": {Name: "data", Path: real}, "docs": {Name: "docs", Path: real, ReadOnly: true},
	}
	if got := n.Node().HostVolumes; !reflect.DeepEqual(got, want) {
		t.Errorf("HostVolumes = %+v, want %+v", got, want)
	}
}

func TestMissingHostVolume(t *testing.T) {
	dir := nodeDir(t)
	cfg := config(dir)
	cfg.HostVolumes = map[string]client.HostVolume{"a": {Path: filepath.Join(dir, "a")}, "b": {Path: filepath.Join(dir, "b")}, "c": {Path: dir}}
	_, err := client.New(cfg, client.Parts{Log: slog.New(slog.DiscardHandler)})
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), `host volume "a"`) || !strings.Contains(err.Error(), `host volume "b"`) || strings.Contains(err.Error(), `"c"`) {
		t.Errorf("New() = %v, want it to name a and b", err)
	}
	log := &strings.Builder{}
	cfg.HostVolumes = map[string]client.HostVolume{"all": {Path: dir}}
	c, err := client.New(cfg, client.Parts{Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "overlaps a directory of the agent") {
		t.Errorf("log = %s, want a warning", log)
	}
}

// Network namespaces of an agent that died are removed at the next start.
func TestNetworksLeftBehind(t *testing.T) {
	if !netns.Possible() {
		t.Skip("needs root")
	}
	dir := nodeDir(t)
	f := startServer(t)
	cfg := config(dir, f.addr())
	left := netns.New(filepath.Join(cfg.StateDir, "netns"))
	path, err := left.Make(nomad.NewID())
	if err != nil {
		t.Fatal(err)
	}
	n := start(t, cfg)
	<-n.Ready()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the namespace of an unknown allocation still exists: %v", err)
	}
}
