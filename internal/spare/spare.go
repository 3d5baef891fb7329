// Package spare makes files and directories ahead, while nothing needs them: to make one
// on a disk where many were removed lately takes up to half a millisecond, and starts of
// tasks make a dozen; to give one its name takes none.
//
//	<dir>/      0700, nobody else's; there while the pool runs
//	  a1, b2 …  a letter for the kind, and a number
//
// A spare is in no way different from what is made when it is needed, so that whoever has
// none makes it then and need not know. One is not given where it would be different: on
// another file system, and where what is made inherits a group or an access control list
// from its directory.
//
// One goroutine makes them (Run). It pauses between a few and the next few, and while
// something is taken. Nothing is kept open.
package spare

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// How they are made.
const (
	quiet = 25 * time.Millisecond // without anything taken, before more are made
	batch = 16                    // of them, then it looks again
)

// Kind is one sort of spare.
type Kind struct {
	Letter string
	Most   int                     // so many lie ready
	Make   func(path string) error // makes one
}

// Pool is the spares in one directory. A nil *Pool has none.
type Pool struct {
	dir   string
	log   *slog.Logger
	kinds []Kind
	taken Lull

	mu    sync.Mutex
	apart bool // they are wanted on another file system
	next  int
	ready [][]string // paths, of each kind
}

// New returns the pool of the directory dir, which is its own and not there, or left by one
// whose process was killed. There are no spares before Run.
func New(dir string, log *slog.Logger, kinds ...Kind) *Pool {
	return &Pool{dir: dir, log: log, kinds: kinds, taken: NewLull(), ready: make([][]string, len(kinds))}
}

// Run makes spares until ctx ends, and removes them then.
func (p *Pool) Run(ctx context.Context) error {
	defer p.remove()
	p.remove()
	for p.taken.Wait(ctx, quiet) {
		if p.useless() {
			p.remove()
			<-ctx.Done()
			break
		}
		more, err := p.fill(ctx)
		if err != nil {
			p.log.Debug("nothing is made ahead", "dir", p.dir, "err", err)
		}
		if !more && !p.taken.Next(ctx) {
			break
		}
	}
	return ctx.Err()
}

func (p *Pool) useless() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.apart
}

// remove removes all spares.
func (p *Pool) remove() {
	p.mu.Lock()
	clear(p.ready)
	p.mu.Unlock()
	if err := os.RemoveAll(p.dir); err != nil {
		p.log.Warn("remove what was made ahead", "err", err)
	}
}

// fill makes some of what is missing, unless something is taken or ctx ends meanwhile, and
// says whether there is more to make.
func (p *Pool) fill(ctx context.Context) (more bool, err error) {
	for range batch {
		if p.taken.Noted() || ctx.Err() != nil {
			return true, nil
		}
		k, path := p.missing()
		if path == "" {
			return false, nil
		}
		if err := os.Mkdir(p.dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return false, err
		}
		if err := p.kinds[k].Make(path); err != nil {
			return false, fmt.Errorf("make %s: %w", path, err)
		}
		p.mu.Lock()
		p.ready[k] = append(p.ready[k], path)
		p.mu.Unlock()
	}
	return true, nil
}

// missing names the next one to make, of the kind of which there are fewest: "" for none.
func (p *Pool) missing() (kind int, path string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	few := 1.0 // of all that there should be
	for k, want := range p.kinds {
		if have := float64(len(p.ready[k])) / float64(want.Most); have < few {
			kind, few = k, have
		}
	}
	if few == 1 {
		return 0, ""
	}
	p.next++
	return kind, filepath.Join(p.dir, p.kinds[kind].Letter+strconv.Itoa(p.next))
}

// Place gives a spare the name in the directory that is open as to, one level down, and says
// whether it did. Nothing that is there is replaced. The caller looks in any case at what is there
// then: somebody else may have put it there.
func (p *Pool) Place(kind int, to int, name string) bool {
	if p == nil || strings.Contains(name, "/") || inherits(to) {
		return false
	}
	path := p.take(kind)
	if path == "" {
		return false
	}
	err := unix.Renameat2(unix.AT_FDCWD, path, to, name, unix.RENAME_NOREPLACE)
	if err == nil {
		return true
	}
	p.log.Debug("what was made ahead is of no use", "name", name, "err", err)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.apart = p.apart || err == unix.EXDEV
	if err == unix.EEXIST {
		p.ready[kind] = append(p.ready[kind], path)
	}
	return false
}

// take takes the oldest spare, "" if there is none.
func (p *Pool) take(kind int) string {
	p.taken.Note()
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.ready[kind]
	if len(all) == 0 || p.apart {
		return ""
	}
	path := all[0]
	p.ready[kind] = slices.Delete(all, 0, 1)
	return path
}

// inherits says whether what is made in the directory gets more from it than its place.
func inherits(fd int) bool {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_ISGID != 0 {
		return true
	}
	_, err := unix.Fgetxattr(fd, "system.posix_acl_default", nil)
	return err == nil
}
