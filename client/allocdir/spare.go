package allocdir

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/internal/spare"
)

// spareEach bounds the directories that lie ready, of allocations and of tasks.
const spareEach = 32

// spareName is their directory, in that of the client's state.
const spareName = "spare"

// What a spare directory becomes.
const (
	forAlloc = iota
	forTask
)

// Spares are directories of allocations and tasks that are made ahead (internal/spare):
//
//	<state>/spare/
//	  a<n>/             as <root>/<alloc id>/
//	  t<n>/             as <root>/<alloc id>/<task>/, all 0700 and the agent's
//	    tmp/<point>/    only with a root in /tmp
//
// A task that has its tmp as /tmp, and the host's way to its directory in that, needs an
// empty directory there on which the sandbox mounts the rest of the way (internal/sandbox):
// the last of these.
//
// File systems in memory of the default size are made ahead, too, and held by descriptors:
// they are mounted nowhere, so that no task has them in its copy of the mounts.
//
// A nil *Spares has none.
type Spares struct {
	pool   *spare.Pool
	point  string               // "" with a root elsewhere
	memory chan safefs.Detached // buffered
}

// NewSpares returns the spares of the client whose state is in the directory state, and its
// allocations in root. There are none before Run.
func NewSpares(state, root string, log *slog.Logger) *Spares {
	s := &Spares{point: inTmp(root), memory: make(chan safefs.Detached, spareEach)}
	s.pool = spare.New(filepath.Join(state, spareName), log,
		spare.Kind{Letter: "a", Most: spareEach, Make: makeAlloc}, spare.Kind{Letter: "t", Most: spareEach, Make: s.makeTask})
	return s
}

// inTmp is the name in /tmp of the directory that holds root, "" if root is not below one.
func inTmp(root string) string {
	below, err := filepath.Rel("/tmp", root)
	if err != nil || !filepath.IsLocal(below) || below == "." {
		return ""
	}
	first, _, _ := strings.Cut(below, "/")
	return first
}

// Run makes spares until ctx ends, and removes them then.
func (s *Spares) Run(ctx context.Context) error {
	defer func() {
		for fs, ok := s.takeMemory(); ok; fs, ok = s.takeMemory() {
			fs.Close() // and gone
		}
	}()
	return s.pool.Run(ctx)
}

// makeAlloc makes one for an allocation.
func makeAlloc(path string) error {
	at, err := safefs.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	d := &Dir{root: at, id: filepath.Base(path)}
	defer d.Close()
	return d.build()
}

// makeTask makes one for a task, and what is mounted in it if that is missing.
func (s *Spares) makeTask(path string) error {
	if err := s.makeMemory(); err != nil {
		return err
	}
	at, err := safefs.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer at.Close()
	task, err := at.Make(filepath.Base(path), stickyMode)
	if err != nil {
		return err
	}
	defer task.Close()
	for _, name := range []string{LocalName, TmpName, PrivateName, SecretsName} {
		sub, err := task.Make(name, 0o700)
		if err != nil {
			return err
		}
		if name == TmpName && s.point != "" {
			err = unix.Mkdirat(sub.FD(), s.point, 0o711)
		}
		sub.Close() // made; nothing is held open
		if err != nil {
			return err
		}
	}
	return nil
}

// makeMemory makes a file system in memory, unless there are enough.
func (s *Spares) makeMemory() error {
	if os.Geteuid() != 0 || len(s.memory) == cap(s.memory) {
		return nil
	}
	fs, err := safefs.NewTmpfs(safefs.Tmpfs{SizeMB: defaultSecretsMB, Mode: 0o700})
	if err != nil {
		return err
	}
	if err := mark(fs.Dir); err != nil {
		fs.Close() // and gone
		return err
	}
	s.memory <- fs // nobody else sends
	return nil
}

// takeMemory takes such a file system, if there is one.
func (s *Spares) takeMemory() (safefs.Detached, bool) {
	if s == nil {
		return safefs.Detached{}, false
	}
	select {
	case fs := <-s.memory:
		return fs, true
	default:
		return safefs.Detached{}, false
	}
}

// placeTask moves a spare to the directory of a task in that of its allocation.
func (s *Spares) placeTask(to *safefs.Dir, cfg TaskConfig) error {
	if !s.place(forTask, to, cfg.Name) || s.point == "" || cfg.Private {
		return nil
	}
	tmp, err := to.Sub(filepath.Join(cfg.Name, TmpName))
	if err != nil {
		return err
	}
	defer tmp.Close()
	return tmp.RemoveAll(s.point) // nothing will be mounted there
}

// place moves a spare to name in the directory to, if there is one and nothing is there,
// and says whether it did. The caller builds, in any case, what is not there yet and not as
// it should be.
func (s *Spares) place(kind int, to *safefs.Dir, name string) bool {
	if s == nil || to.Exists(name) {
		return false // it was built by an earlier agent, or for an earlier start
	}
	return s.pool.Place(kind, to.FD(), name)
}
