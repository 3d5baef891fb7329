package sandbox_test

import (
	"errors"
	"os"
	"testing"

	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/internal/sandbox"
)

// TestNoIDMap checks that the error about a file system without ID-mapped mounts, such as ramfs, gives the reason.
func TestNoIDMap(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: mounts")
	}
	users, err := sandbox.Owners(&sandbox.User{UID: 88123, GID: 88123})
	if err != nil {
		t.Fatal(err)
	}
	defer users.Close()
	tree, err := safefs.NewTree("ramfs", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	if err := tree.Restrict(safefs.TreeAttrs{Users: int(users.Fd())}); !errors.Is(err, safefs.ErrNoIDMap) {
		t.Errorf("error = %v, want %v", err, safefs.ErrNoIDMap)
	}
}
