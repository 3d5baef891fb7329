package migrate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/client/allocdir"
	"github.com/open-nomad/open-nomad/internal/safefs"
)

// kept are the modes of the directories of an allocation that contain data.
const (
	dataMode   = 0o777
	parentMode = 0o777 | fs.ModeSticky
)

// Move renames the data directories of an allocation of this node into the new one and maps
// their owners. It can be repeated after a crash: directories that were moved stay.
func (t Target) Move(old *safefs.Dir, taskOf func(uid int) string) error {
	if err := t.moveAll(old); err != nil {
		return fmt.Errorf("move data: %w", err)
	}
	if os.Geteuid() != 0 || t.Owner == nil {
		return nil
	}
	return t.each(func(parent, name string) error {
		err := t.chown(parent, name, taskOf)
		if err != nil {
			return fmt.Errorf("set owners of moved data: %w", err)
		}
		return nil
	})
}

// each calls visit with the parent and the name of every data directory.
func (t Target) each(visit func(parent, name string) error) error {
	if err := visit(allocdir.SharedName, allocdir.DataName); err != nil {
		return err
	}
	for _, task := range t.Tasks {
		if err := visit(task, allocdir.LocalName); err != nil {
			return err
		}
	}
	return nil
}

func (t Target) moveAll(old *safefs.Dir) error {
	return t.each(func(parent, name string) error { return t.moveOne(old, parent, name) })
}

// moveOne renames one directory. A directory that the old allocation lacks is left out.
func (t Target) moveOne(old *safefs.Dir, parent, name string) error {
	from, err := old.Sub(parent)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer from.Close()
	info, err := from.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode.IsDir():
		return fmt.Errorf("%s/%s is not a directory", parent, name)
	}
	to, err := t.Dir.Make(parent, parentMode)
	if err != nil {
		return err
	}
	defer to.Close()
	err = from.Move(name, to, name)
	if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
		return nil // moved before a crash of the agent
	}
	return err
}

// Clear empties the data directories of an allocation that has not started.
func (t Target) Clear() error {
	err := t.Dir.RemoveAll(stagingName)
	if err != nil {
		return fmt.Errorf("remove partial data: %w", err)
	}
	return t.each(func(parent, name string) error {
		dir, err := t.Dir.Make(parent, parentMode)
		if err != nil {
			return fmt.Errorf("empty %s/%s: %w", parent, name, err)
		}
		defer dir.Close()
		if err := dir.RemoveAll(name); err != nil {
			return fmt.Errorf("empty %s/%s: %w", parent, name, err)
		}
		made, err := dir.Make(name, dataMode)
		if err != nil {
			return fmt.Errorf("empty %s/%s: %w", parent, name, err)
		}
		return made.Close()
	})
}

// chown maps the owners of everything below a data directory. The directory itself gets its owner
// when the tasks start.
func (t Target) chown(parent, name string, taskOf func(int) string) error {
	above, err := t.Dir.Sub(parent)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer above.Close()
	dir, err := above.Sub(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	return t.ownBelow(dir, parent+"/"+name, taskOf, maxDepth)
}

func (t Target) ownBelow(dir *safefs.Dir, path string, taskOf func(int) string, depth int) error {
	if depth == 0 {
		return fmt.Errorf("%s: more than %d levels of directories", path, maxDepth)
	}
	return dir.Each(func(name string, info safefs.Info) error {
		at := path + "/" + name
		uid, gid, err := t.Owner(at, taskOf(info.UID), info.UID, info.GID)
		if err != nil {
			return err
		}
		if uid != info.UID || gid != info.GID {
			if err := dir.SetOwner(name, uid, gid); err != nil {
				return err
			}
		}
		if !info.Mode.IsDir() {
			return nil
		}
		sub, err := dir.Sub(name)
		if err != nil {
			return err
		}
		defer sub.Close()
		return t.ownBelow(sub, at, taskOf, depth-1)
	})
}
