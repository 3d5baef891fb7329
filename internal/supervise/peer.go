package supervise

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/supervise/proc"
)

// peer is one connected client.
type peer struct {
	server   *server
	conn     *os.File
	requests sync.WaitGroup

	mu sync.Mutex // one frame at a time
}

// answerPatience is the time limit for sending an answer to a client that does not read.
const answerPatience = 30 * time.Second

func (c *peer) handle(ctx context.Context, req *request) {
	if req.Op == opWait {
		c.wait(ctx, req)
		return
	}
	resp := &response{}
	err := c.server.dispatch(ctx, req, resp)
	if ctx.Err() != nil {
		return
	}
	resp.Seq = req.Seq
	c.answer(resp, err)
}

// wait answers when the task has ended. No goroutine waits meanwhile: there is a request for every running task.
func (c *peer) wait(ctx context.Context, req *request) {
	t, err := c.server.task(ctx, req.ID)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		c.answer(&response{Seq: req.Seq}, err)
		return
	}
	t.atEnd(waiter{gone: func() bool { return ctx.Err() != nil }, answer: func() {
		resp := &response{Seq: req.Seq}
		t.answerBrief(resp)
		c.answer(resp, nil)
	}})
}

func (c *peer) answer(resp *response, err error) {
	if err != nil {
		resp.Err = err.Error()
		if _, ok := errors.AsType[*proc.StartError](err); ok {
			resp.Kind = kindStart
		} else if errors.Is(err, proc.ErrUnknownTask) {
			resp.Kind = kindUnknown
		} else if errors.Is(err, proc.ErrRunning) {
			resp.Kind = kindRunning
		} else if errors.Is(err, errRefused) {
			resp.Kind = kindRefused
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn.SetWriteDeadline(time.Now().Add(answerPatience)) //nolint:errcheck // a socket supports deadlines
	if err := writeFrame(c.conn, resp); err != nil {
		c.conn.Close() // the client connects again and repeats the request
	}
}

func (s *server) dispatch(ctx context.Context, req *request, resp *response) error {
	switch req.Op {
	case opHello:
		resp.Program, resp.Apart, resp.Guarded = s.program, true, true
		return nil
	case opStart:
		return s.startTask(req, resp)
	case opCollect:
		return s.collectLogs(req, resp)
	case opList:
		s.list(req, resp)
		return nil
	case opUpgrade:
		return s.upgrade(req.Path, req.Program)
	case opShutdown:
		s.shutdown()
		return nil
	case opRest:
		return s.rest()
	}
	t, err := s.task(ctx, req.ID)
	if err != nil {
		return err
	}
	switch req.Op {
	case opTask:
		if req.Brief {
			t.answerBrief(resp)
			return nil
		}
		return t.answerFull(resp)
	case opSignal:
		return t.signal(unix.Signal(req.Signal))
	case opForget:
		return s.forget(t)
	case opKill:
		if err := t.kill(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.done:
		}
	default:
		return fmt.Errorf("unknown operation %q", req.Op)
	}
	t.answerBrief(resp)
	return nil
}

// brief returns the task's record without Declared.
func (t *task) brief() proc.Task {
	info := t.snapshot()
	info.Declared = nil
	return info
}

func (t *task) answerBrief(resp *response) {
	info := t.brief()
	resp.Task = &info
}

// answerFull answers with the complete record, including Declared.
func (t *task) answerFull(resp *response) error {
	info := t.snapshot()
	var err error
	if len(info.Declared) == 0 { // an earlier build had it in the record's other file
		info.Declared, err = t.record.declared()
	}
	resp.Task = &info
	return err
}

// task returns a task. It waits for a start in progress: the client that requested it may be gone,
// and the next one must not start the task again.
func (s *server) task(ctx context.Context, id string) (*task, error) {
	for {
		s.mu.Lock()
		t, starting := s.tasks[id], s.starts[id]
		_, apart := s.apart[id]
		unread := len(s.unread) > 0
		s.mu.Unlock()
		var err error
		switch {
		case t != nil:
			return t, nil
		case starting != nil:
			select {
			case <-starting:
			case <-ctx.Done():
				err = ctx.Err()
			}
		case apart:
			err = s.release(id)
		case unread:
			err = s.readAgain(id)
		default:
			err = proc.ErrUnknownTask
		}
		if err != nil {
			return nil, err
		}
	}
}

func (s *server) startTask(req *request, resp *response) error {
	if req.Spec == nil {
		return errors.New("start without a task")
	}
	if err := req.Spec.validate(); err != nil {
		return &proc.StartError{Reason: err.Error()}
	}
	return s.begin(req.Spec.ID, resp, func() (*task, error) { return s.launch(req.Spec) })
}

// begin adds the task that open starts. Requests for the task wait until open has returned.
func (s *server) begin(id string, resp *response, open func() (*task, error)) error {
	s.mu.Lock()
	_, known := s.tasks[id]
	if _, apart := s.apart[id]; apart {
		known = true
	}
	over := make(chan struct{})
	if !known && !s.closing {
		s.tasks[id] = nil
		s.starts[id] = over
	}
	closing := s.closing
	s.mu.Unlock()
	if known {
		return &proc.StartError{Reason: "task " + id + " is already started"}
	}
	if closing {
		return errors.New("the supervisor is shutting down")
	}
	t, err := open()
	s.mu.Lock()
	defer s.mu.Unlock()
	defer close(over)
	delete(s.starts, id)
	s.activity = time.Now()
	if err != nil {
		delete(s.tasks, id)
		return err
	}
	t.answerBrief(resp)
	s.tasks[id] = t
	go t.watch()
	return nil
}

func (s *server) launch(spec *Spec) (*task, error) {
	defer s.turns.take()()
	s.numbers.Lock()
	rec, err := s.store.create()
	s.numbers.Unlock()
	if err != nil {
		return nil, err
	}
	return startTask(s, rec, spec)
}

func (s *server) list(req *request, resp *response) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tasks {
		if t == nil {
			continue
		}
		if info := t.brief(); !req.Faulty || len(info.LogFaults) > 0 {
			resp.Tasks = append(resp.Tasks, info)
		}
	}
	if req.Faulty {
		return
	}
	for _, a := range s.apart {
		a.info.Declared = nil // as in brief
		resp.Tasks = append(resp.Tasks, a.info)
	}
}

func (s *server) forget(t *task) error {
	info := t.snapshot()
	if info.Exit == nil {
		return proc.ErrRunning
	}
	s.mu.Lock()
	delete(s.tasks, info.ID)
	s.mu.Unlock()
	return t.record.remove()
}

// shutdown ends every task, and then the supervisor.
func (s *server) shutdown() {
	if err := s.readAgain(""); err != nil {
		s.log.Error("a task continues without a supervisor", "err", err)
	}
	s.mu.Lock()
	apart := slices.Collect(maps.Keys(s.apart))
	s.mu.Unlock()
	for _, id := range apart {
		if err := s.release(id); err != nil {
			s.log.Error("a task continues without a supervisor", "task", id, "err", err)
		}
	}
	s.mu.Lock()
	s.closing = true
	var all []*task
	for _, t := range s.tasks {
		if t != nil {
			all = append(all, t)
		}
	}
	s.mu.Unlock()
	for _, t := range all {
		if err := t.kill(); err != nil {
			t.log.Warn("kill task", "err", err)
		}
	}
	for _, t := range all {
		<-t.done
		if err := t.record.remove(); err != nil {
			t.log.Warn("remove task record", "err", err)
		}
	}
	s.stop()
}

// rest ends the supervisor if only the requesting client uses it.
func (s *server) rest() error {
	s.mu.Lock()
	busy := s.clients > 1 || s.running() > 0
	s.closing = s.closing || !busy
	s.mu.Unlock()
	if busy {
		return proc.ErrRunning
	}
	s.stop()
	return nil
}
