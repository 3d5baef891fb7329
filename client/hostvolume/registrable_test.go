package hostvolume_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// TestRegisterForeign checks that a registration opens neither the files of the agent nor the volume of another namespace.
func TestRegisterForeign(t *testing.T) {
	w := newWorld(t)
	theirs := mkdirRequest("theirs", nil)
	theirs.Namespace = "other"
	if _, err := w.create(theirs); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{filepath.Join(w.private, "client"), filepath.Join(w.dir, theirs.ID, "sub"), filepath.Join(w.dir, "own")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(filepath.Join(w.private, "client"), link); err != nil {
		t.Fatal(err)
	}
	id := nomad.NewID()
	register := func(path string) error {
		return w.Register(&message.ClientHostVolumeRegisterRequest{ID: id, Name: "mine", HostPath: path})
	}
	for path, want := range map[string]string{
		w.private: "a directory of the agent", filepath.Join(w.private, "client"): "a directory of the agent", link: "a directory of the agent",
		w.plugins: "a directory of the agent", filepath.Dir(w.private): "overlaps",
		w.dir: "the volumes of all namespaces", filepath.Dir(w.dir): "the volumes of all namespaces",
		filepath.Join(w.dir, theirs.ID): "belongs to the volume " + theirs.ID, filepath.Join(w.dir, theirs.ID, "sub"): "belongs to the volume",
	} {
		fails(t, path, register(path), want)
	}
	if w.Volumes()["mine"] != nil {
		t.Errorf("the node has %+v", w.Volumes()["mine"])
	}
	if err := register(filepath.Join(w.dir, "own")); err != nil {
		t.Errorf("a directory that mkdir has not made: %v", err)
	}
}

// TestRestore_PlantedLink checks that a registered volume stays away after its path leads to another directory, or
// through a link that a task can have created.
func TestRestore_PlantedLink(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: links of other users")
	}
	for name, owner := range map[string]int{"link of root": 0, "link of a task": 80015} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			parent, secret := t.TempDir(), t.TempDir()
			path := filepath.Join(parent, "sub")
			if err := os.Mkdir(path, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := w.Register(&message.ClientHostVolumeRegisterRequest{ID: nomad.NewID(), Name: "mine", HostPath: path}); err != nil {
				t.Fatal(err)
			}
			for _, err := range []error{os.Remove(path), os.Symlink(secret, path), os.Chown(parent, owner, owner), os.Lchown(path, owner, owner)} {
				if err != nil {
					t.Fatal(err)
				}
			}
			w.restart()
			want := map[int]string{0: "now leads to " + secret, 80015: "is a symbolic link that is not owned by root"}[owner]
			fails(t, "Restore", w.Restore(t.Context()), want)
			if v := w.Volumes()["mine"]; v != nil {
				t.Errorf("the node has %+v", v)
			}
		})
	}
}
