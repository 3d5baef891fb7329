package nodeid

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/nomad"
)

// ErrNoID means that the node ID or the secret ID of a registered node is missing.
var ErrNoID = errors.New("the node has lost its ID")

// halfLost returns an error if exactly one of the two files of a registered node is missing. A
// new node ID would be another node with this node's allocations; the servers would refuse a
// new secret ID. If both files are missing, the directory is that of a new node, as on a cloned
// machine.
func halfLost(dir string) error {
	names := [...]string{"client-id", "secret-id"}
	var lost []string
	for _, name := range names {
		_, err := os.Lstat(filepath.Join(dir, name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			lost = append(lost, filepath.Join(dir, name))
		case err != nil:
			return fmt.Errorf("read node identity: %w", err)
		}
	}
	if len(lost) != 1 {
		return nil
	}
	return fmt.Errorf("%w: %s is missing, but %s holds the state of a registered node: restore the file from a backup, "+
		"or remove %s and %s to join as a new node", ErrNoID, lost[0], dir, names[0], names[1])
}

// persistentID returns the UUID in a file of mode 0600. It creates the file if it does not
// exist.
func persistentID(path string) (string, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		id := nomad.NewID()
		return id, writeAtomic(path, []byte(id))
	}
	if err != nil {
		return "", fmt.Errorf("read node identity: %w", err)
	}
	id := strings.ToLower(strings.TrimSpace(string(b)))
	if !nomad.IsUUID(id) {
		return "", fmt.Errorf("read node identity: %s does not contain a UUID", path)
	}
	return id, nil
}

// writeAtomic writes a file of mode 0600 atomically.
func writeAtomic(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*") // made with mode 0600
	if err != nil {
		return fmt.Errorf("write node identity: %w", err)
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("write node identity: %w", err)
	}
	if err := safefs.SyncDir(filepath.Dir(path)); err != nil {
		return fmt.Errorf("write node identity: %w", err)
	}
	return nil
}
