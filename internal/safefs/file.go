package safefs

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"golang.org/x/sys/unix"
)

// File holds the mode and owner of a replaced file.
type File struct {
	Mode     fs.FileMode
	UID, GID int // -1 keeps the current value
}

// Replace writes data to name, below the directory, atomically. The parent directory must exist.
func (d *Dir) Replace(name string, data []byte, attributes File) error {
	parent, base := path.Split(path.Clean(name))
	if parent == "" {
		return d.replace(base, data, attributes)
	}
	sub, err := d.Sub(path.Clean(parent))
	if err != nil {
		return err
	}
	defer sub.Close()
	return sub.replace(base, data, attributes)
}

func (d *Dir) replace(name string, data []byte, attributes File) error {
	if err := single(name); err != nil {
		return err
	}
	w, err := d.Draft()
	if err != nil {
		return err
	}
	defer w.Discard()
	if _, err := w.Write(data); err != nil {
		return d.fail("replace", name, err)
	}
	return w.Commit(name, attributes)
}

// unique returns prefix and a random suffix that nobody can guess. It calls getrandom(2), because
// crypto/rand would make the companion, and so each start of a task, larger.
func unique(prefix string) (string, error) {
	var random [16]byte
	if n, err := unix.Getrandom(random[:], 0); err != nil || n != len(random) {
		return "", fmt.Errorf("getrandom: %d bytes: %w", n, err)
	}
	return prefix + hex.EncodeToString(random[:]), nil
}

// Remove removes the file or link name, one level down. A missing name is not an error.
func (d *Dir) Remove(name string) error {
	if err := single(name); err != nil {
		return err
	}
	err := unix.Unlinkat(d.FD(), name, 0)
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return d.fail("remove", name, err)
	}
	return nil
}

// proc returns the /proc path of the descriptor. It leads to the open directory even after a
// rename.
func (d *Dir) proc() string { return fmt.Sprintf("/proc/self/fd/%d", d.FD()) }
