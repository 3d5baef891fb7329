package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/supervise/logs"
	"github.com/open-nomad/open-nomad/internal/supervise/proc"
	"github.com/open-nomad/open-nomad/internal/supervise/wire"
)

// collectLogs begins a collection, or answers with the one that exists.
func (s *server) collectLogs(req *wire.Request, resp *wire.Response) error {
	if req.Spec == nil || req.Spec.ID == "" || req.Spec.Logs.Disabled {
		return errors.New("collect without a task or logs")
	}
	if err := req.Spec.ValidateLogs(); err != nil {
		return &proc.StartError{Reason: err.Error()}
	}
	s.mu.Lock()
	t := s.tasks[req.Spec.ID]
	s.mu.Unlock()
	if t != nil {
		t.answerBrief(resp)
		return nil
	}
	return s.begin(req.Spec.ID, resp, func() (*task, error) { return s.openCollection(req.Spec) })
}

func (s *server) openCollection(spec *proc.Spec) (*task, error) {
	boot, err := bootID()
	if err != nil {
		return nil, fmt.Errorf("read boot ID: %w", err)
	}
	s.numbers.Lock()
	rec, err := s.store.create()
	s.numbers.Unlock()
	if err != nil {
		return nil, err
	}
	t := newTask(s, rec, proc.Task{ID: spec.ID, Started: time.Now(), Logs: spec.Logs, Boot: boot, Pipes: []string{}})
	for _, stream := range proc.Streams {
		t.info.Pipes = append(t.info.Pipes, rec.pipe(stream))
		err = errors.Join(err, rec.makePipe(stream, nil))
	}
	if err == nil {
		err = t.hold()
	}
	if err == nil {
		err = t.collect(logs.InheritAtStart())
	}
	if err == nil {
		err = t.record.writeTask(&t.info)
	}
	if err != nil {
		t.undo()
		return nil, err
	}
	return t, nil
}

// hold opens the FIFOs for writing.
func (t *task) hold() error {
	for _, name := range t.info.Pipes {
		f, err := openFile(name, unix.O_RDWR)
		if err != nil {
			return fmt.Errorf("open log pipe: %w", err)
		}
		t.holds = append(t.holds, f)
	}
	return nil
}

// adoptCollection continues a collection of an earlier supervisor. After a reboot nothing writes to
// the FIFOs any more.
func (t *task) adoptCollection(boot string, kept *keptTask) error {
	if t.info.Boot != boot {
		return t.kill()
	}
	if err := t.hold(); err != nil {
		return err
	}
	if err := t.collectAgain(kept); err != nil {
		t.log.Warn("continue collecting logs", "err", err)
	}
	return nil
}

// openForeign opens the FIFO of another collector, or /dev/null. A task may have put anything else
// there, such as a link. It opens for reading too, so that the task never gets SIGPIPE.
func openForeign(name string) (*os.File, error) {
	at, err := unix.Open(name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open log pipe: %w", &fs.PathError{Op: "open", Path: name, Err: err})
	}
	defer unix.Close(at)
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); err != nil {
		return nil, fmt.Errorf("open log pipe: %w", &fs.PathError{Op: "stat", Path: name, Err: err})
	}
	null := st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == unix.Mkdev(1, 3)
	if st.Mode&unix.S_IFMT != unix.S_IFIFO && !null {
		return nil, fmt.Errorf("open log pipe: %s is not a FIFO", name)
	}
	return openFile("/proc/self/fd/"+strconv.Itoa(at), unix.O_RDWR)
}
