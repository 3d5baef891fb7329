package hostvolume_test

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/open-nomad/open-nomad/nomad/message"
)

func TestMkdir(t *testing.T) {
	w := newWorld(t)
	req := mkdirRequest("data", nil)
	got, err := w.create(req)
	path := filepath.Join(w.dir, req.ID)
	if err != nil || got.HostPath != path || got.CapacityBytes != 0 || got.VolumeName != "data" || got.VolumeID != req.ID {
		t.Fatalf("Create() = %+v, %v", got, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != os.ModeDir|0o700 {
		t.Errorf("the directory is %v, %v", info, err)
	}
	if v := w.Volumes()["data"]; v == nil || v.ID != req.ID || v.Path != path || w.changes != 1 {
		t.Errorf("the node has %+v after %d changes", v, w.changes)
	}
	if err := os.MkdirAll(filepath.Join(path, "a/b"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o750); err != nil {
		t.Fatal(err)
	}
	if _, err := w.create(req); err != nil {
		t.Errorf("a volume that exists: %v", err)
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o750 {
		t.Errorf("the second create set the mode %v", info.Mode())
	}
	del := &message.ClientHostVolumeDeleteRequest{ID: req.ID, Name: "data", PluginID: "mkdir"}
	for range 2 { // deleting is idempotent
		if err := w.Delete(t.Context(), del); err != nil {
			t.Error(err)
		}
	}
	if got := only(t, w.dir); got != "[]" || len(w.Volumes()) != 0 || len(w.store.rows) != 0 {
		t.Errorf("after Delete %s and %+v remain", got, w.store.rows)
	}
}

func TestMkdirParameters(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		name, value, want string
	}{
		{"mode", "0999", `parameter mode is "0999"`},
		{"mode", "4755", `parameter mode is "4755"`},
		{"mode", "", "use an octal number"},
		{"uid", "root", "use a numeric ID"},
		{"gid", "-2", "use a numeric ID"},
		{"owner", "me", `unknown parameter "owner": use mode, uid and gid`},
	} {
		_, err := w.create(mkdirRequest("bad", map[string]string{c.name: c.value}))
		fails(t, c.name+" "+c.value, err, c.want, `plugin "mkdir"`)
	}
	if got := only(t, w.dir); got != "[]" || len(w.store.rows) != 0 {
		t.Errorf("failed creates left %s and %v", got, w.store.rows)
	}
	if os.Getuid() != 0 {
		t.Skip("setting the owner needs root")
	}
	req := mkdirRequest("data", map[string]string{"mode": "0770", "uid": "1234", "gid": "4321"})
	if _, err := w.create(req); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(w.dir, req.ID))
	if err != nil {
		t.Fatal(err)
	}
	st := info.Sys().(*syscall.Stat_t)
	if st.Uid != 1234 || st.Gid != 4321 || info.Mode().Perm() != 0o770 {
		t.Errorf("uid %d, gid %d, mode %v", st.Uid, st.Gid, info.Mode())
	}
}

// The directory of a volume is never reached through a link or another path.
func TestMkdirStaysInside(t *testing.T) {
	w := newWorld(t)
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "kept"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"../x", "x", "", "/tmp", "..", "a/../b"} {
		req := mkdirRequest("data", nil)
		req.ID = id
		_, err := w.create(req)
		fails(t, "create "+id, err, "is not a UUID")
		fails(t, "delete "+id, w.Delete(t.Context(), &message.ClientHostVolumeDeleteRequest{ID: id, Name: "data", PluginID: "mkdir"}),
			"is not a UUID")
	}
	req := mkdirRequest("data", nil)
	if err := os.MkdirAll(w.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(w.dir, req.ID)); err != nil {
		t.Fatal(err)
	}
	_, err := w.create(req)
	fails(t, "create at a link", err, "not a directory")
	if err := w.Delete(t.Context(), &message.ClientHostVolumeDeleteRequest{ID: req.ID, Name: "data", PluginID: "mkdir"}); err != nil {
		t.Error(err)
	}
	if only(t, outside) != "[kept]" || only(t, w.dir) != "[]" {
		t.Errorf("outside %s, volumes %s", only(t, outside), only(t, w.dir))
	}
}

func TestOneVolumeForEachName(t *testing.T) {
	w := newWorld(t)
	first, other := mkdirRequest("data", nil), mkdirRequest("data", nil)
	if _, err := w.create(first); err != nil {
		t.Fatal(err)
	}
	_, err := w.create(other)
	fails(t, "another ID", err, "volume name already exists on this node", first.ID)
	fails(t, "register", w.Register(&message.ClientHostVolumeRegisterRequest{ID: other.ID, Name: "data", HostPath: t.TempDir()}),
		"already exists on this node")
	fails(t, "delete", w.Delete(t.Context(), &message.ClientHostVolumeDeleteRequest{ID: other.ID, Name: "data", PluginID: "mkdir"}),
		"already exists on this node")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Create(ctx, &first); err != nil {
		t.Errorf("an update: %v", err)
	}
}

func TestRegister(t *testing.T) {
	w := newWorld(t)
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	req := &message.ClientHostVolumeRegisterRequest{ID: mkdirRequest("", nil).ID, Name: "data", HostPath: link}
	if err := w.Register(req); err != nil {
		t.Fatal(err)
	}
	real, _ := filepath.EvalSymlinks(dir)
	if v := w.Volumes()["data"]; v == nil || v.Path != real {
		t.Errorf("the node has %+v, want the resolved path %s", v, real)
	}
	w.restart()
	if err := w.Restore(t.Context()); err != nil || w.Volumes()["data"] == nil {
		t.Errorf("Restore() = %v, the node has %v", err, w.Volumes())
	}
	if err := w.Delete(t.Context(), &message.ClientHostVolumeDeleteRequest{ID: req.ID, Name: "data"}); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("the registered directory was removed: %v", err)
	}
	for _, path := range []string{"", "relative", "/a/../b", "/", dir + "/missing", dir + "//x"} {
		fails(t, path, w.Register(&message.ClientHostVolumeRegisterRequest{ID: req.ID, Name: "x", HostPath: path}), "cannot register volume")
	}
}
