package artifact

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"unicode"

	"github.com/open-nomad/open-nomad/internal/safefs"
)

// inspect checks an entry of a directory and everything below it: files, directories, and links that stay
// inside. It removes special bits of modes, and sets the owner if the job asks for it. The program has
// ended, so the tree does not change any more.
func (j *job) inspect(from *safefs.Dir, name string) error {
	info, err := from.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("the download is empty")
	}
	if err != nil {
		return err
	}
	i := &inspector{keepLinks: j.cfg.KeepLinks, uid: -1, gid: -1}
	if os.Geteuid() == 0 && (j.artifact.Chown || from == j.stage.dir) {
		i.uid, i.gid = j.task.UID, j.task.GID
	}
	if info.Mode&fs.ModeSymlink != 0 {
		return errors.New("artifact refused: the download is a symbolic link")
	}
	if err := i.check(entry{dir: from, name: name}); err != nil {
		return fmt.Errorf("artifact refused: %w", err)
	}
	return nil
}

// inspector checks a tree.
type inspector struct {
	keepLinks bool
	uid, gid  int
}

// entry is an entry of the tree.
type entry struct {
	dir   *safefs.Dir // which contains it
	name  string
	at    string // its path in the tree; "" for the root
	depth int    // the number of directories above
}

// check checks an entry and everything below it.
func (i *inspector) check(e entry) error {
	if strings.ContainsFunc(e.at, unicode.IsControl) {
		return fmt.Errorf("the name %q contains a control character", e.at)
	}
	if e.depth > maxDepth {
		return fmt.Errorf("more than %d levels of directories", maxDepth)
	}
	info, err := e.dir.Lstat(e.name)
	if err != nil {
		return err
	}
	switch t := info.Mode.Type(); {
	case t == fs.ModeSymlink:
		if err := i.link(e); err != nil {
			return err
		}
		return e.dir.SetOwner(e.name, i.uid, i.gid)
	case t == fs.ModeDir:
		return i.directory(e, info)
	case t != 0:
		return fmt.Errorf("%q is neither a file, a directory nor a link (%v)", e.at, info.Mode.Type())
	case info.Links != 1:
		return fmt.Errorf("%q is a hard link", e.at)
	}
	return i.adjust(e, info, info.Mode.Perm())
}

// adjust sets mode and owner. The owner comes first, because that change removes special bits itself.
func (i *inspector) adjust(e entry, info safefs.Info, mode fs.FileMode) error {
	if err := e.dir.SetOwner(e.name, i.uid, i.gid); err != nil {
		return err
	}
	if info.Mode&^fs.ModeType == mode {
		return nil
	}
	return e.dir.SetMode(e.name, mode)
}

// directory checks a directory. The agent must be able to read it, also without root.
func (i *inspector) directory(e entry, info safefs.Info) error {
	if err := i.adjust(e, info, info.Mode.Perm()|0o700); err != nil {
		return err
	}
	sub, err := e.dir.Sub(e.name)
	if err != nil {
		return err
	}
	defer sub.Close()
	return sub.Each(func(name string, _ safefs.Info) error {
		return i.check(entry{sub, name, path.Join(e.at, name), e.depth + 1})
	})
}

// link checks the target of a link. It may begin with "..", once for each directory above inside the tree,
// and has no ".." after that, since what comes before could be another link. By induction, no
// chain of such links leads out of the tree.
func (i *inspector) link(e entry) error {
	if i.keepLinks {
		return nil
	}
	target, err := e.dir.ReadLink(e.name)
	if err != nil {
		return err
	}
	if path.IsAbs(target) || target == "" {
		return fmt.Errorf("the link %q leads to %q, outside of the artifact", e.at, target)
	}
	up, down := 0, false
	for part := range strings.SplitSeq(target, "/") {
		switch part {
		case "", ".":
		case "..":
			up++
			if down || up >= e.depth {
				return fmt.Errorf("the link %q leads to %q, outside of the artifact or through another link", e.at, target)
			}
		default:
			down = true
		}
	}
	return nil
}
