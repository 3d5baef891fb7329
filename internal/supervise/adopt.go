package supervise

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/open-nomad/open-nomad/internal/supervise/proc"
)

// quarantined ends the names of records that could not be adopted. They are tried again when
// somebody asks for the task, and by the next supervisor.
const quarantined = ".quarantined"

// adopt takes back the tasks of an earlier supervisor. One that cannot be adopted keeps none of
// the others from it.
func (s *server) adopt(dir string, kept *handover) error {
	store, records, err := openStore(dir)
	if err != nil {
		return err
	}
	s.store = store
	boot, err := bootID()
	if err != nil {
		return fmt.Errorf("read boot ID: %w", err)
	}
	for _, rec := range records {
		info, err := rec.read()
		if errors.Is(err, fs.ErrNotExist) {
			s.log.Info("remove the record of a start that had not begun", "record", rec.dir)
			s.forgetRecord(rec)
			continue
		}
		if err != nil {
			s.quarantine(rec, "", err)
			continue
		}
		k := kept.task(info.ID)
		if rec.tried {
			k = nil // nothing was kept of it: its log pipes are opened anew
		}
		t, err := adoptTask(s, rec, info, boot, k)
		if err != nil {
			s.quarantine(rec, info.ID, err)
			continue
		}
		s.adopted(rec, info, t)
	}
	return nil
}

// adopted takes a task that has been adopted, nil for a start that was not completed.
func (s *server) adopted(rec record, info *proc.Task, t *task) {
	if t == nil {
		s.log.Info("end a start that was not completed", "task", info.ID)
		s.forgetRecord(rec)
		return
	}
	s.tasks[info.ID] = t
	if info.Exit == nil {
		go t.watch()
	}
	s.log.Info("adopt task", "task", info.ID, "pid", info.PID, "exited", info.Exit != nil)
}

// quarantine sets a record aside. Without the ID of its task nobody can ask for it.
func (s *server) quarantine(rec record, id string, why error) {
	aside := rec.dir
	if !strings.HasSuffix(aside, quarantined) {
		aside += quarantined
		if err := os.Rename(rec.dir, aside); err != nil {
			s.log.Error("quarantine task record", "record", rec.dir, "err", err)
			aside = rec.dir
		}
	}
	if id != "" {
		s.apart[id] = record{dir: aside}
	}
	s.log.Error("a task cannot be adopted: its record is quarantined, its processes go on without a supervisor",
		"task", id, "record", aside, "err", why)
}

// release tries a quarantined task again. Unlike one that is unknown it may still run, so who
// asks for it gets an error until it is adopted.
func (s *server) release(id string) error {
	s.releasing.Lock()
	defer s.releasing.Unlock()
	s.mu.Lock()
	rec, ok := s.apart[id]
	s.mu.Unlock()
	if !ok {
		return nil // somebody else was first
	}
	info, t, err := s.tryAgain(&rec)
	if err != nil {
		return fmt.Errorf("the task is quarantined: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.apart, id)
	s.adopted(rec, info, t)
	return nil
}

// tryAgain adopts the task of a quarantined record, which then has its first name again.
func (s *server) tryAgain(rec *record) (*proc.Task, *task, error) {
	info, err := rec.read()
	if err != nil {
		return nil, nil, err
	}
	boot, err := bootID()
	if err != nil {
		return nil, nil, err
	}
	aside := rec.dir
	rec.dir = strings.TrimSuffix(aside, quarantined)
	if err := os.Rename(aside, rec.dir); err != nil {
		return nil, nil, err
	}
	t, err := adoptTask(s, *rec, info, boot, nil)
	if err != nil {
		return nil, nil, errors.Join(err, os.Rename(rec.dir, aside))
	}
	return info, t, nil
}

func (s *server) forgetRecord(rec record) {
	if err := rec.remove(); err != nil {
		s.log.Warn("remove task record", "err", err)
	}
}
