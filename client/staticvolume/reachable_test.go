package staticvolume_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/client"
	"github.com/open-nomad/open-nomad/client/clienttest"
	"github.com/open-nomad/open-nomad/client/netns"
	"github.com/open-nomad/open-nomad/client/staticvolume"
	"github.com/open-nomad/open-nomad/drivers/mock"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// imageDriver is a driver with images.
type imageDriver struct{ *mock.Driver }

func (imageDriver) Capabilities() drivers.Capabilities {
	return drivers.Capabilities{FSIsolation: drivers.FSIsolationImage}
}

// A writable volume is reported if all of its parents let other users pass, and its file system allows setuid programs.
func TestVolumes_Reachable(t *testing.T) {
	if !netns.Possible() {
		t.Skip("needs root: mounts")
	}
	dir, err := os.MkdirTemp("/var", "open-nomad-test-") // all of its parents are open
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	at := func(names ...string) string { return filepath.Join(append([]string{dir}, names...)...) }
	if err := errors.Join(os.MkdirAll(at("open", "closed"), 0o755), os.MkdirAll(at("private", "open"), 0o755), os.Mkdir(at("safe"), 0o755),
		os.Chmod(dir, 0o711), os.Chmod(at("open", "closed"), 0o700), os.Chmod(at("private"), 0o700),
		unix.Mount("tmpfs", at("safe"), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(at("safe"), unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	for name, c := range map[string]struct {
		volume staticvolume.Volume
		list   []drivers.Driver
		want   bool
	}{
		"its own mode does not help": {staticvolume.Volume{Path: at("open", "closed")}, nil, true},
		"read-only":                  {staticvolume.Volume{Path: at("open", "closed"), ReadOnly: true}, nil, false},
		"private parent":             {staticvolume.Volume{Path: at("private", "open")}, nil, false},
		"mounted with nosuid":        {staticvolume.Volume{Path: at("safe")}, nil, false},
		"no driver with images":      {staticvolume.Volume{Path: at("open")}, []drivers.Driver{mock.New(mock.Name, clienttest.Log())}, false},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := clienttest.Config(clienttest.Dir(t))
			cfg.HostVolumes = map[string]staticvolume.Volume{"data": c.volume}
			if c.list == nil {
				c.list = []drivers.Driver{imageDriver{mock.New(mock.Name, clienttest.Log())}}
			}
			log := &strings.Builder{}
			n, err := client.New(cfg, client.Parts{Drivers: c.list, Log: slog.New(slog.NewTextHandler(log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			defer n.Close()
			if got := strings.Contains(log.String(), "can reach a writable host volume"); got != c.want || got &&
				!strings.Contains(log.String(), "chmod 0700") {
				t.Errorf("log = %s, want a warning: %t", log, c.want)
			}
		})
	}
}
