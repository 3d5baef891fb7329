package migrate_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client/migrate"
	"github.com/open-nomad/open-nomad/internal/safefs"
)

// disk is an allocation's directory with the task t.
type disk struct {
	t    testing.TB
	path string
	dir  *safefs.Dir
}

func newDisk(t testing.TB) disk {
	t.Helper()
	path := filepath.Join(t.TempDir(), "alloc-id")
	for _, sub := range []string{"alloc/data", "alloc/logs", "t/local", "t/secrets"} {
		if err := os.MkdirAll(filepath.Join(path, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := safefs.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	return disk{t, path, dir}
}

func (d disk) write(name, text string) {
	d.t.Helper()
	path := filepath.Join(d.path, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		d.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
		d.t.Fatal(err)
	}
}

// has checks the content of a file.
func (d disk) has(name, want string) {
	d.t.Helper()
	got, err := os.ReadFile(filepath.Join(d.path, name))
	if err != nil || string(got) != want {
		d.t.Errorf("%s has %.100q, %v; want %.100q", name, got, err, want)
	}
}

// empty checks that the allocation has only its empty directories.
func (d disk) empty() {
	d.t.Helper()
	err := filepath.WalkDir(d.path, func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			d.t.Errorf("%s was left", path)
		}
		return err
	})
	if err != nil {
		d.t.Error(err)
	}
	for _, name := range []string{"alloc/data", "t/local"} {
		if left, err := os.ReadDir(filepath.Join(d.path, name)); err != nil || len(left) > 0 {
			d.t.Errorf("%s has %v, %v", name, left, err)
		}
	}
	if _, err := os.Lstat(filepath.Join(d.path, ".migrate")); err == nil {
		d.t.Error("the staging directory was left")
	}
}

func (d disk) source() migrate.Source {
	return migrate.Source{Dir: d.dir, AllocID: "old", Tasks: []string{"t"}}
}

func (d disk) target() migrate.Target { return migrate.Target{Dir: d.dir, Tasks: []string{"t"}} }

// limits are those of a group with a small disk, with short times.
func limits() migrate.Limits {
	return migrate.Limits{Bytes: 8 << 20, Stall: 10 * time.Second, Total: time.Minute, Attempts: 3, Pause: time.Millisecond}
}

// serve starts a node that answers with the handler.
func serve(t testing.TB, h http.HandlerFunc) migrate.Remote {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return migrate.Remote{URL: s.URL, Token: "secret",
		HTTP: &http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}}
}

// fetch receives a snapshot.
func (d disk) fetch(from migrate.Remote, l migrate.Limits) error {
	d.t.Helper()
	stream := from.Stream(context.Background(), l)
	defer stream.Close()
	return d.target().Receive(stream, l)
}
