package server

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
	"github.com/open-nomad/open-nomad/internal/supervise/wire"
)

// peer is one connected client.
type peer struct {
	server   *server
	conn     *os.File
	requests sync.WaitGroup

	mu sync.Mutex // one frame at a time
}

// answerTimeout is the time limit for sending an answer to a client that does not read.
const answerTimeout = 30 * time.Second

func (c *peer) handle(ctx context.Context, req *wire.Request) {
	switch req.Op {
	case wire.OpWait:
		c.wait(ctx, req)
		return
	case wire.OpKeep:
		c.answer(&wire.Response{Seq: req.Seq}, c.server.keepSockets(c.conn, req.Sockets))
		return
	}
	resp := &wire.Response{}
	err := c.server.dispatch(ctx, req, resp)
	if ctx.Err() != nil {
		return
	}
	resp.Seq = req.Seq
	c.answer(resp, err)
}

// wait answers when the task has ended. No goroutine waits meanwhile: there is a request for every running task.
func (c *peer) wait(ctx context.Context, req *wire.Request) {
	t, err := c.server.task(ctx, req.ID)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		c.answer(&wire.Response{Seq: req.Seq}, err)
		return
	}
	t.atEnd(waiter{gone: func() bool { return ctx.Err() != nil }, answer: func() {
		resp := &wire.Response{Seq: req.Seq}
		t.answerBrief(resp)
		c.answer(resp, nil)
	}})
}

func (c *peer) answer(resp *wire.Response, err error) {
	resp.SetError(err)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn.SetWriteDeadline(time.Now().Add(answerTimeout)) //nolint:errcheck // a socket supports deadlines
	if err := wire.WriteResponse(c.conn, resp); err != nil {
		c.conn.Close() // the client connects again and repeats the request
	}
}

func (s *server) dispatch(ctx context.Context, req *wire.Request, resp *wire.Response) error {
	switch req.Op {
	case wire.OpHello:
		s.mu.Lock()
		defer s.mu.Unlock()
		resp.Program, resp.Separate, resp.Guarded, resp.Sockets = s.program, true, true, s.sockets
		return nil
	case wire.OpStart:
		return s.startTask(req, resp)
	case wire.OpCollect:
		return s.collectLogs(req, resp)
	case wire.OpList:
		s.list(req, resp)
		return nil
	case wire.OpUpgrade:
		return s.upgrade(req.Path, req.Program)
	case wire.OpShutdown:
		s.shutdown()
		return nil
	case wire.OpStopIdle:
		return s.stopIdle()
	}
	t, err := s.task(ctx, req.ID)
	if err != nil {
		return err
	}
	switch req.Op {
	case wire.OpTask:
		if req.Brief {
			t.answerBrief(resp)
			return nil
		}
		return t.answerFull(resp)
	case wire.OpSignal:
		if req.Main {
			return t.signalMain(unix.Signal(req.Signal))
		}
		return t.signal(unix.Signal(req.Signal))
	case wire.OpForget:
		return s.forget(t)
	case wire.OpKill:
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

func (t *task) answerBrief(resp *wire.Response) {
	info := t.brief()
	resp.Task = &info
}

// answerFull answers with the complete record, including Declared.
func (t *task) answerFull(resp *wire.Response) error {
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
		_, quarantined := s.quarantined[id]
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
		case quarantined:
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

func (s *server) startTask(req *wire.Request, resp *wire.Response) error {
	if req.Spec == nil {
		return errors.New("start without a task")
	}
	if err := req.Spec.Validate(); err != nil {
		return &proc.StartError{Reason: err.Error()}
	}
	return s.begin(req.Spec.ID, resp, func() (*task, error) { return s.launch(req.Spec) })
}

// begin adds the task that open starts. Requests for the task wait until open has returned.
func (s *server) begin(id string, resp *wire.Response, open func() (*task, error)) error {
	s.mu.Lock()
	_, exists := s.tasks[id]
	if _, quarantined := s.quarantined[id]; quarantined {
		exists = true
	}
	over := make(chan struct{})
	if !exists && !s.closing {
		s.tasks[id] = nil
		s.starts[id] = over
	}
	closing := s.closing
	s.mu.Unlock()
	if exists {
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

func (s *server) launch(spec *proc.Spec) (*task, error) {
	defer s.turns.Take()()
	s.numbers.Lock()
	rec, err := s.store.create()
	s.numbers.Unlock()
	if err != nil {
		return nil, err
	}
	return startTask(s, rec, spec)
}

func (s *server) list(req *wire.Request, resp *wire.Response) {
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
	for _, a := range s.quarantined {
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
	ids := slices.Collect(maps.Keys(s.quarantined))
	s.mu.Unlock()
	for _, id := range ids {
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

// stopIdle ends the supervisor if only the requesting client uses it.
func (s *server) stopIdle() error {
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
