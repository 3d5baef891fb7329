package staticvolume_test

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
	"github.com/open-nomad/open-nomad/client/clienttest"
	"github.com/open-nomad/open-nomad/client/staticvolume"
	"github.com/open-nomad/open-nomad/nomad"
)

// The node reports its volumes, with links resolved at the start.
func TestVolumes_Links(t *testing.T) {
	dir := clienttest.Dir(t)
	real, link := filepath.Join(dir, "real"), filepath.Join(dir, "link")
	if err := errors.Join(os.Mkdir(real, 0o755), os.Symlink(real, link)); err != nil {
		t.Fatal(err)
	}
	f := clienttest.StartServer(t)
	cfg := clienttest.Config(dir, f.Addr())
	cfg.HostVolumes = map[string]staticvolume.Volume{"data": {Path: link}, "docs": {Path: real, ReadOnly: true}}
	n := clienttest.Start(t, cfg)
	want := map[string]*nomad.ClientHostVolumeConfig{
		"data": {Name: "data", Path: real}, "docs": {Name: "docs", Path: real, ReadOnly: true},
	}
	if got := n.Node().HostVolumes; !reflect.DeepEqual(got, want) {
		t.Errorf("HostVolumes = %+v, want %+v", got, want)
	}
}

// TestHostVolumes_PlantedLink checks that a link that a task can have created in a volume is not followed
// at the next start of the agent, and that a changed link of root is reported.
func TestVolumes_PlantedLink(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: links of other users")
	}
	dir := clienttest.Dir(t)
	at := func(names ...string) string { return filepath.Join(append([]string{dir}, names...)...) }
	for _, name := range []string{"vol", "vol/sub", "open", "secret", "a", "b"} {
		if err := os.Mkdir(at(name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Chown(at("vol"), 80015, 80015), os.Chmod(at("open"), 0o777), os.Symlink(at("a"), at("link"))); err != nil {
		t.Fatal(err)
	}
	cfg := clienttest.Config(dir)
	cfg.HostVolumes = map[string]staticvolume.Volume{"sub": {Path: at("vol", "sub")}, "open": {Path: at("open", "x")},
		"root": {Path: at("link")}}
	log := &strings.Builder{}
	volumes := func() map[string]*nomad.ClientHostVolumeConfig {
		t.Helper()
		log.Reset()
		c, err := client.New(cfg, client.Parts{Log: slog.New(slog.NewTextHandler(log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.Node().HostVolumes
	}
	if err := os.Mkdir(at("open", "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got := volumes(); len(got) != 3 || got["root"].Path != at("a") {
		t.Fatalf("HostVolumes = %+v, want all", got)
	}
	for _, name := range []string{at("vol", "sub"), at("open", "x"), at("link")} {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	// The link in open belongs to root, but others could have put a hard link to another one there.
	if err := errors.Join(os.Symlink(at("secret"), at("vol", "sub")), os.Symlink(at("secret"), at("open", "x")),
		os.Symlink(at("b"), at("link"))); err != nil {
		t.Fatal(err)
	}
	if got := volumes(); len(got) != 1 || got["root"] == nil || got["root"].Path != at("b") {
		t.Errorf("HostVolumes = %+v, want root only", got)
	}
	for _, want := range []string{"is not available", "volume=sub", "volume=open", "leads to another directory", "before=" + at("a")} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("log = %s, want %q", log, want)
		}
	}
	if volumes(); strings.Contains(log.String(), "another directory") {
		t.Errorf("log of the next start = %s", log)
	}
}

// TestHostVolumes_LinkOfContainer checks that a link of root is not followed in a directory in which tasks can write: a
// container that runs as root can have created it.
func TestVolumes_LinkOfContainer(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: links of root")
	}
	for name, c := range map[string]struct {
		volumes  map[string]staticvolume.Volume // "sub" has the path of the link
		followed bool
	}{
		"in a volume":                 {map[string]staticvolume.Volume{"rw": {Path: "vol"}, "sub": {Path: "vol/sub"}}, false},
		"in a volume, read-only":      {map[string]staticvolume.Volume{"rw": {Path: "vol", ReadOnly: true}, "sub": {Path: "vol/sub"}}, true},
		"in a volume behind a link":   {map[string]staticvolume.Volume{"rw": {Path: "link"}, "sub": {Path: "vol/sub"}}, false},
		"in a volume, by its link":    {map[string]staticvolume.Volume{"rw": {Path: "vol"}, "sub": {Path: "link/sub"}}, false},
		"in no volume":                {map[string]staticvolume.Volume{"rw": {Path: "secret"}, "sub": {Path: "vol/sub"}}, true},
		"the volume itself is a link": {map[string]staticvolume.Volume{"sub": {Path: "link"}}, true},
		"in an allocation":            {map[string]staticvolume.Volume{"sub": {Path: "alloc/a/sub"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := clienttest.Dir(t)
			cfg := clienttest.Config(dir)
			cfg.HostVolumes = map[string]staticvolume.Volume{}
			for name, v := range c.volumes {
				v.Path = filepath.Join(dir, v.Path)
				cfg.HostVolumes[name] = v
			}
			cfg.AllocDir = filepath.Join(dir, "alloc")
			for _, name := range []string{"vol", "secret", "alloc/a"} {
				if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			for link, to := range map[string]string{"vol/sub": "secret", "alloc/a/sub": "secret", "link": "vol"} {
				if err := os.Symlink(filepath.Join(dir, to), filepath.Join(dir, link)); err != nil {
					t.Fatal(err)
				}
			}
			log := &strings.Builder{}
			n, err := client.New(cfg, client.Parts{Log: slog.New(slog.NewTextHandler(log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			defer n.Close()
			if got := n.Node().HostVolumes["sub"]; (got != nil) != c.followed {
				t.Errorf("the volume = %+v, want followed %v", got, c.followed)
			}
			if !c.followed && !strings.Contains(log.String(), "in which tasks can write") {
				t.Errorf("log = %s, want the reason", log)
			}
		})
	}
}

func TestVolumes_Missing(t *testing.T) {
	dir := clienttest.Dir(t)
	cfg := clienttest.Config(dir)
	cfg.HostVolumes = map[string]staticvolume.Volume{"a": {Path: filepath.Join(dir, "a")}, "b": {Path: filepath.Join(dir, "b")},
		"c": {Path: dir}}
	_, err := client.New(cfg, client.Parts{Log: slog.New(slog.DiscardHandler)})
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), `host volume "a"`) ||
		!strings.Contains(err.Error(), `host volume "b"`) || strings.Contains(err.Error(), `"c"`) {
		t.Errorf("New() = %v, want it to name a and b", err)
	}
	log := &strings.Builder{}
	cfg.HostVolumes = map[string]staticvolume.Volume{"all": {Path: dir}}
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
