package allocdir

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/safefs"
)

// Bounds of what is made ahead.
const (
	spareEach = 8                      // directories of allocations, and of tasks
	quiet     = 100 * time.Millisecond // without a start, before more are made
)

// spareName is the directory of what is made ahead, in that of the client's state.
const spareName = "spare"

// kind is what a spare directory becomes.
type kind int

const (
	forAlloc kind = iota
	forTask
	kinds
)

// Spares are directories of allocations and tasks that are made ahead, while nothing
// starts: to make ten of them on a disk takes longer than all else that the client does
// for a start, to rename two takes no time. They are in no way different. Where there is
// none, or alloc_dir is on another file system, directories are made when they are needed.
//
//	<state>/spare/      0700, nobody else's
//	  a<n>/             as <root>/<alloc id>/
//	  t<n>/             as <root>/<alloc id>/<task>/, all 0700 and the agent's
//
// A nil *Spares has none.
type Spares struct {
	state string
	log   *slog.Logger
	taken chan struct{} // buffered 1

	mu    sync.Mutex
	apart bool // alloc_dir is on another file system
	next  int
	ready [kinds][]string
}

// NewSpares returns the spares of the client whose state is in the directory state. There
// are none before Run.
func NewSpares(state string, log *slog.Logger) *Spares {
	return &Spares{state: state, log: log, taken: make(chan struct{}, 1)}
}

// Run makes spares until ctx ends, and removes them then.
func (s *Spares) Run(ctx context.Context) error {
	defer s.remove()
	s.remove() // those of an agent that was killed
	for {
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-s.taken:
			case <-time.After(quiet):
				waiting = false
			}
		}
		if err := s.fill(); err != nil {
			s.log.Debug("no directories are made ahead", "err", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.taken:
		}
	}
}

// remove removes all spares.
func (s *Spares) remove() {
	s.mu.Lock()
	s.ready = [kinds][]string{}
	s.mu.Unlock()
	at, err := safefs.Open(s.state)
	if err == nil {
		err = at.RemoveAll(spareName)
		at.Close() // only a way
	}
	if err != nil {
		s.log.Warn("remove directories that were made ahead", "err", err)
	}
}

// fill makes what is missing, unless something starts meanwhile.
func (s *Spares) fill() error {
	at, err := safefs.Open(s.state)
	if err != nil {
		return err
	}
	defer at.Close()
	dir, err := at.Make(spareName, 0o700)
	if err != nil {
		return err
	}
	defer dir.Close()
	for len(s.taken) == 0 {
		k, name := s.missing()
		if name == "" {
			return nil
		}
		if err := k.make(dir, name); err != nil {
			return fmt.Errorf("make a directory ahead: %w", err)
		}
		s.put(k, name)
	}
	return nil
}

// missing names the next one to make, "" for none.
func (s *Spares) missing() (kind, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := forAlloc
	if len(s.ready[forTask]) < len(s.ready[forAlloc]) {
		k = forTask
	}
	if s.apart || len(s.ready[k]) >= spareEach {
		return k, ""
	}
	s.next++
	return k, string("at"[k]) + strconv.Itoa(s.next)
}

// make makes one.
func (k kind) make(dir *safefs.Dir, name string) error {
	if k == forAlloc {
		d := &Dir{root: dir, id: name}
		err := d.build()
		if d.dir != nil {
			d.dir.Close() // made; nothing is held open
		}
		return err
	}
	task, err := dir.Make(name, stickyMode)
	if err != nil {
		return err
	}
	defer task.Close()
	for _, name := range []string{LocalName, TmpName, PrivateName, SecretsName} {
		sub, err := task.Make(name, 0o700)
		if err != nil {
			return err
		}
		sub.Close() // made; nothing is held open
	}
	return nil
}

func (s *Spares) put(k kind, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready[k] = append(s.ready[k], name)
}

// place moves a spare to name in the directory to, if there is one and nothing is there.
// The caller builds, in any case, what is not there yet and not as it should be.
func (s *Spares) place(k kind, to *safefs.Dir, name string) {
	if s == nil {
		return
	}
	select {
	case s.taken <- struct{}{}:
	default: // it is known that something starts
	}
	if to.Exists(name) {
		return // it was built by an earlier agent, or for an earlier start
	}
	spare := s.take(k)
	if spare == "" {
		return
	}
	at, err := safefs.Open(s.state)
	if err != nil {
		return
	}
	defer at.Close()
	from, err := at.Sub(spareName)
	if err != nil {
		return
	}
	defer from.Close()
	if err := to.MoveFrom(from, spare, name); err != nil {
		s.log.Debug("a directory that was made ahead is of no use", "err", err)
		s.mu.Lock()
		s.apart = s.apart || errors.Is(err, unix.EXDEV)
		s.mu.Unlock()
	}
}

// take returns the name of a spare, "" if there is none.
func (s *Spares) take(k kind) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.ready[k]
	if len(all) == 0 {
		return ""
	}
	s.ready[k] = all[:len(all)-1]
	return all[len(all)-1]
}
