package artifact

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/safefs"
)

// merge moves the entry name of from into the destination: a directory's entries, or a file under its name.
// It returns the result's path relative to the task's directory. Files and links of the destination are
// replaced; its directories keep their other entries. No link of the destination is followed.
func (p place) merge(from *safefs.Dir, name, file string) (string, error) {
	alloc, err := safefs.Open(p.task.AllocPath)
	if err != nil {
		return "", err
	}
	defer alloc.Close()
	to, err := alloc.MakeAll(p.dir, 0o755, p.task.UID, p.task.GID)
	if err != nil {
		return "", fmt.Errorf("open destination %q: %w", p.target, err)
	}
	defer to.Close()
	info, err := from.Lstat(name)
	if err != nil {
		return "", err
	}
	m := &merger{place: p}
	if p.as != "" {
		if info.Mode.IsDir() {
			return "", errors.New("the download is a directory, but mode is file")
		}
		return p.target, m.entry(&move{from, name, &target{Dir: to}, p.as, path.Join(p.dir, p.as), info})
	}
	if info.Mode.IsDir() {
		return p.target, m.directory(from, name, to, p.dir)
	}
	if file == "" {
		return "", errors.New("the download is a file without a name: set mode = \"file\"")
	}
	return path.Join(p.target, file), m.entry(&move{from, name, &target{Dir: to}, file, path.Join(p.dir, file), info})
}

// merger moves a tree.
type merger struct{ place place }

// target is a directory of the destination.
type target struct {
	*safefs.Dir
	placed map[safefs.ID]string // names of the entries that were moved to it
}

// check returns the entry of the directory with the name, if there is one. An entry that was just moved there
// under another name is an error: the destination takes both names for one.
func (t *target) check(name string) (have safefs.Info, missing bool, err error) {
	have, err = t.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return have, true, nil
	}
	if other, same := t.placed[have.ID]; err == nil && same {
		err = fmt.Errorf("%q and %q of the artifact are the same in the destination: it ignores the case of names or normalizes them",
			other, name)
	}
	return have, false, err
}

// done records that the name is an entry of the artifact.
func (t *target) done(name string) error {
	info, err := t.Lstat(name)
	if err != nil {
		return err
	}
	if t.placed == nil {
		t.placed = map[safefs.ID]string{}
	}
	t.placed[info.ID] = name
	return nil
}

// directory moves the entries of the directory name of from to the directory to, which is at in the allocation.
func (m *merger) directory(from *safefs.Dir, name string, to *safefs.Dir, at string) error {
	sub, err := from.Sub(name)
	if err != nil {
		return err
	}
	defer sub.Close()
	into := &target{Dir: to}
	return sub.Each(func(entry string, info safefs.Info) error {
		return m.entry(&move{from: sub, name: entry, to: into, as: entry, at: path.Join(at, entry), info: info})
	})
}

// move is the move of the entry name of a directory to the name as of another one.
type move struct {
	from *safefs.Dir
	name string
	to   *target
	as   string
	at   string // as, in the allocation
	info safefs.Info
}

// entry moves one entry.
func (m *merger) entry(mv *move) error {
	if err := m.place.reserved(mv.at); err != nil {
		return err
	}
	if err := m.put(mv); err != nil {
		return err
	}
	return mv.to.done(mv.as)
}

func (m *merger) put(mv *move) error {
	info, at := mv.info, mv.at
	have, missing, err := mv.to.check(mv.as)
	switch {
	case err != nil:
		return err
	case !missing && have.Mode.IsDir() && !info.Mode.IsDir():
		return fmt.Errorf("%q of the destination is a directory, and a file of the artifact", at)
	case !missing && !have.Mode.IsDir() && info.Mode.IsDir():
		return fmt.Errorf("%q of the destination is a file, and a directory of the artifact", at)
	case !missing && info.Mode.IsDir():
		sub, err := mv.to.Sub(mv.as)
		if err != nil {
			return err
		}
		defer sub.Close()
		return m.directory(mv.from, mv.name, sub, at)
	}
	err = mv.from.Move(mv.name, mv.to.Dir, mv.as)
	if errors.Is(err, unix.EXDEV) {
		return m.copy(mv)
	}
	return err
}

// copy copies an entry to another file system, such as that of the secrets.
func (m *merger) copy(mv *move) error {
	switch info := mv.info; {
	case info.Mode.IsDir():
		sub, err := mv.to.Make(mv.as, info.Mode.Perm())
		if err != nil {
			return err
		}
		defer sub.Close()
		if err := chown(mv.to.Dir, mv.as, info); err != nil {
			return err
		}
		return m.directory(mv.from, mv.name, sub, mv.at)
	case info.Mode&fs.ModeSymlink != 0:
		return fmt.Errorf("%q is a link, which cannot be moved to another file system: choose a destination in local/", mv.at)
	}
	return mv.copyFile()
}

// copyFile copies a file under a random name and then renames it.
func (mv *move) copyFile() error {
	to, as := mv.to.Dir, mv.as
	src, err := mv.from.Open(mv.name)
	if err != nil {
		return err
	}
	defer src.Close()
	temp, tempName, err := to.Temp(stagePrefix, 0o700)
	if err != nil {
		return err
	}
	defer temp.Close()
	dst, err := temp.Create(as, mv.info.Mode.Perm())
	if err != nil {
		return errors.Join(err, to.RemoveAll(tempName))
	}
	err = safefs.Copy(dst, src)
	if closeErr := dst.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = chown(temp, as, mv.info)
	}
	if err == nil {
		err = temp.Move(as, to, as)
	}
	return errors.Join(err, to.RemoveAll(tempName))
}

// chown gives an entry the owner of info.
func chown(dir *safefs.Dir, name string, info safefs.Info) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return dir.SetOwner(name, info.UID, info.GID)
}
