package artifact

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/open-nomad/open-nomad/client/allocdir"
	"github.com/open-nomad/open-nomad/internal/fetch"
	"github.com/open-nomad/open-nomad/internal/safefs"
)

const (
	// stagePrefix begins the names of the directories of downloads in the task's directory.
	stagePrefix = ".nomad-artifact-"
	workName    = "work"
	// fileName is the name of a downloaded file that is not an archive, in the directory of the agent.
	fileName = "file"
)

// stage is the directory of one download.
type stage struct {
	root *safefs.Dir // of the task
	name string
	dir  *safefs.Dir // of the agent
	work *safefs.Dir // of the program
	mode fs.FileMode // of the file that was taken, to be restored
}

func newStage(t *Task) (*stage, error) {
	s := &stage{root: t.Dir.Root()}
	var err error
	if s.dir, s.name, err = s.root.Temp(stagePrefix, 0o711); err != nil {
		return nil, fmt.Errorf("create directory of the download: %w", err)
	}
	s.work, err = s.dir.Make(workName, 0o700)
	if err == nil {
		err = s.work.Chown(t.UID, t.GID)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("create directory of the download: %w", err), s.remove())
	}
	return s, nil
}

// path returns the path of a name in the directory, for the program.
func (s *stage) path(t *Task, name string) string { return path.Join(t.Dir.Path(), s.name, name) }

// remove closes and removes the directory.
func (s *stage) remove() error {
	if s.work != nil {
		s.work.Close()
	}
	s.dir.Close()
	return s.root.RemoveAll(s.name)
}

// RemoveLeftovers removes directories of downloads that an earlier agent did not finish. No download of the task
// may run.
func RemoveLeftovers(t *allocdir.Task) error {
	var errs []error
	err := t.Root().Each(func(name string, _ safefs.Info) error {
		if strings.HasPrefix(name, stagePrefix) {
			errs = append(errs, t.Root().RemoveAll(name))
		}
		return nil
	})
	return errors.Join(append(errs, err)...)
}

// takeArchive moves the archive into the directory of the agent.
func (s *stage) takeArchive() error { return s.take(s.work, fetch.ArchiveName, fetch.ArchiveName) }

// takeFile moves the file that the program names into the directory of the agent, and returns its name.
func (s *stage) takeFile(file string) (string, error) {
	if file == fetch.OutName {
		return "", s.take(s.work, fetch.OutName, fileName)
	}
	name, ok := strings.CutPrefix(file, fetch.OutName+"/")
	if !ok {
		return "", fmt.Errorf("the program returned the file %q", fetch.Clean(file))
	}
	out, err := s.work.Sub(fetch.OutName)
	if err != nil {
		return "", err
	}
	defer out.Close()
	return name, s.take(out, name, fileName)
}

// take moves a regular file without other names into the directory of the agent and makes it read-only. The
// program has ended: nobody can change the file any more.
func (s *stage) take(from *safefs.Dir, name, as string) error {
	if err := from.Move(name, s.dir, as); err != nil {
		return err
	}
	info, err := s.dir.Lstat(as)
	if err != nil {
		return err
	}
	if !info.Mode.IsRegular() || info.Links != 1 {
		return fmt.Errorf("the download %q is not a regular file with a single name", name)
	}
	s.mode = info.Mode.Perm()
	uid, gid := -1, -1
	if os.Geteuid() == 0 {
		uid, gid = 0, 0
	}
	return errors.Join(s.dir.SetOwner(as, uid, gid), s.dir.SetMode(as, 0o444))
}
