package consensus

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/open-nomad/open-nomad/nomad/consensus/logstore"
)

// Before the first entry is written, every directory with a new name in it is synced, including
// the parent of the server's directory. Otherwise a power failure could lose the log.
func TestOpen_DurableNames(t *testing.T) {
	for _, name := range []string{logstore.WAL, logstore.Bolt} {
		t.Run(name, func(t *testing.T) {
			parent := t.TempDir()
			synced := map[string]bool{}
			s, err := place{dir: filepath.Join(parent, "server"), backend: logstore.Backend{Name: name}, log: raftLogger(nil),
				synced: func(dir string) { synced[dir] = true }}.stores()
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
