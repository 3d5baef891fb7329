package server

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/supervise/proc"
)

// quarantined is the suffix of records that could not be adopted. Adoption is tried again when a
// client asks for the task, and by the next supervisor.
const quarantined = ".quarantined"

// aside is a quarantined record of a known task.
type aside struct {
	record
	info proc.Task
}

// adopt adopts the tasks of an earlier supervisor. A task that cannot be adopted does not affect
// the others.
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
	rebooted := s.rebooted(boot)
	for _, rec := range records {
		info, err := rec.read()
		if errors.Is(err, fs.ErrNotExist) {
			s.log.Info("remove the record of a start that did not begin", "record", rec.dir)
			s.forgetRecord(rec)
			continue
		}
		if err != nil && rebooted {
			s.log.Warn("remove an unreadable task record of an earlier boot", "record", rec.dir, "err", err)
			s.forgetRecord(rec)
			continue
		}
		if err != nil {
			s.quarantine(rec, info, err)
			continue
		}
		k := kept.task(info.ID)
		if rec.tried {
			k = nil // nothing was kept: its log pipes are opened again
		}
		t, err := s.adoptTask(rec, info, boot, k)
		if err != nil {
			s.quarantine(rec, info, err)
			continue
		}
		s.adopted(rec, info, t)
	}
	return s.noteBoot(boot)
}

// rebooted reports whether every record is from an earlier boot, whose processes no longer exist.
// The lock file has the boot ID of the last supervisor.
func (s *server) rebooted(boot string) bool {
	last := make([]byte, len(boot))
	_, err := s.lock.ReadAt(last, 0)
	return err == nil && string(last) != boot
}

// noteBoot writes the boot ID for the next supervisor.
func (s *server) noteBoot(boot string) error {
	last := make([]byte, len(boot))
	if _, err := s.lock.ReadAt(last, 0); err == nil && string(last) == boot {
		return nil
	}
	_, err := s.lock.WriteAt([]byte(boot), 0)
	if err == nil {
		err = unix.Fdatasync(int(s.lock.Fd()))
	}
	if err != nil {
		return fmt.Errorf("write the boot ID: %w", err)
	}
	return nil
}

// adopted adds an adopted task; t is nil for a start that did not complete.
func (s *server) adopted(rec record, info *proc.Task, t *task) {
	if t == nil {
		s.log.Info("end a start that did not complete", "task", info.ID)
		s.forgetRecord(rec)
		return
	}
	s.tasks[info.ID] = t
	if info.Exit == nil {
		go t.watch()
	}
	s.log.Info("adopt task", "task", info.ID, "pid", info.PID, "exited", info.Exit != nil)
}

// quarantine quarantines a record; info is nil if its task is not known.
func (s *server) quarantine(rec record, info *proc.Task, why error) {
	if !strings.HasSuffix(rec.dir, quarantined) {
		to := rec.dir + quarantined
		if err := os.Rename(rec.dir, to); err != nil {
			s.log.Error("quarantine task record", "record", rec.dir, "err", err)
			to = rec.dir
		}
		rec.dir = to
	}
	id := "unknown"
	if info == nil {
		s.unread = append(s.unread, rec)
	} else {
		id = info.ID
		s.quarantined[id] = aside{rec, *info}
	}
	s.log.Error("a task cannot be adopted: its record is quarantined, its processes continue without a supervisor",
		"task", id, "record", rec.dir, "err", why)
}

// release tries to adopt a quarantined task. Unlike an unknown task it may still run, so requests
// for it fail until it is adopted or its record is removed.
func (s *server) release(id string) error {
	s.releasing.Lock()
	defer s.releasing.Unlock()
	s.mu.Lock()
	a, ok := s.quarantined[id]
	s.mu.Unlock()
	if !ok {
		return nil // another request was first
	}
	if a.removed() {
		s.log.Warn("the record of a quarantined task was removed", "task", id, "record", a.dir)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.quarantined, id)
		return nil
	}
	info, t, err := s.tryAgain(&a.record)
	if err != nil {
		return fmt.Errorf("the task is quarantined: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.quarantined, id)
	s.adopted(a.record, info, t)
	return nil
}

// tryAgain adopts the task of a quarantined record, which then gets its original name.
func (s *server) tryAgain(rec *record) (*proc.Task, *task, error) {
	info, err := rec.read()
	if err != nil {
		return nil, nil, err
	}
	boot, err := bootID()
	if err != nil {
		return nil, nil, err
	}
	from := rec.dir
	rec.dir = strings.TrimSuffix(from, quarantined)
	if err := os.Rename(from, rec.dir); err != nil {
		return nil, nil, err
	}
	t, err := s.adoptTask(*rec, info, boot, nil)
	if err != nil {
		return nil, nil, errors.Join(err, os.Rename(rec.dir, from))
	}
	return info, t, nil
}

// readAgain reads again the records whose task is not known. It returns an error if a record stays
// unreadable and may be that of the task.
func (s *server) readAgain(id string) error {
	s.releasing.Lock()
	defer s.releasing.Unlock()
	s.mu.Lock()
	unread := s.unread // after adopt, only changed with s.releasing held
	s.mu.Unlock()
	var remaining []record
	var errs []error
	read := map[string]aside{}
	for _, rec := range unread {
		if rec.removed() {
			s.log.Warn("an unreadable task record was removed", "record", rec.dir)
			continue
		}
		info, err := rec.read()
		if info != nil {
			read[info.ID] = aside{rec, *info}
			continue
		}
		remaining, errs = append(remaining, rec), append(errs, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.Copy(s.quarantined, read)
	s.unread = remaining
	if _, found := s.quarantined[id]; found || len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("the task may run: the record of a task is unreadable: %w", errors.Join(errs...))
}

func (s *server) forgetRecord(rec record) {
	if err := rec.remove(); err != nil {
		s.log.Warn("remove task record", "err", err)
	}
}
