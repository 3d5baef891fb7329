package consensus

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
)

// Before the first entry is written, every directory with a new name in it is synced, including
// the parent of the server's directory. Otherwise a power failure could lose the log.
func TestNewNamesAreDurable(t *testing.T) {
	for _, name := range []string{BackendWAL, BackendBolt} {
		t.Run(name, func(t *testing.T) {
			parent := t.TempDir()
			synced := map[string]bool{}
			s, err := diskStores(filepath.Join(parent, "server"), "", Backend{Name: name, synced: func(dir string) { synced[dir] = true }}, raftLogger(nil))
			if err != nil {
				t.Fatal(err)
			}
			err = filepath.WalkDir(parent, func(path string, d fs.DirEntry, err error) error {
				if err == nil && d.IsDir() && !synced[path] {
					t.Errorf("%s was not synced", path)
				}
				return err
			})
			if err = errors.Join(err, s.close()); err != nil {
				t.Error(err)
			}
		})
	}
}
