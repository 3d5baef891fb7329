// Package logsink copies the logs of tasks to log sinks of the node: journald, and collectors that
// accept OTLP.
//
//	task ──pipe──▶ supervisor ──▶ rotated files ──read──▶ pump ──batch──▶ Sink
//	                                                       │  ▲ retry       │
//	                                   .sink-… (position) ◀┘  └── not accepted
//
// A Set has the sinks of the node, and Set.Follow starts the pumps of a task. A pump copies one log
// to one sink. It reads the files that the supervisor wrote, so that a slow sink never delays a
// task: the files are the buffer. The position moves only when the sink has accepted the lines, and
// is stored once a second, and when the agent ends. So a kill of the agent repeats at most the lines of
// one second. An orderly end repeats none, unless the sink does not answer within a second. Lines are
// lost only if
//
//   - the sink rejects them,
//   - their file is removed by the rotation before the sink accepts them,
//   - the sink accepts nothing for finishPatience after the end of the task, or the agent or the
//     allocation's directory ends before.
//
// The counter client.logs.dropped counts lines that were rejected or given up.
// client.logs.missed_files counts files that were removed before they were read.
//
// Memory: at most maxBatches batches of batchBytes and batchLines for each sink. Goroutines: one per pump. All end
// with Set.Run. The package makes no decision about tasks.
package logsink

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/internal/wake"
	"github.com/open-nomad/open-nomad/nomad"
)

// Limits of the copying.
const (
	// batchBytes is the size of a batch, and the length at which a line is broken.
	batchBytes = 64 << 10
	// batchLines is the maximum number of lines of a batch. A line costs a sink several hundred bytes, also
	// an empty one.
	batchLines = 1024
	// maxBatches is the number of batches per sink in memory.
	maxBatches = 32
	// finishPatience is how long the rest of the log of a task that has ended is retried.
	finishPatience = 10 * time.Minute
	// storeEvery is the shortest time between two writes of a position.
	storeEvery = time.Second
)

// Subject identifies the task of a log.
type Subject struct {
	Namespace, Job, Group, Alloc, AllocName, Task, Node string
}

// Record is one line of a log, without its newline.
type Record struct {
	Subject *Subject
	Stderr  bool
	Time    time.Time // when it was read
	Line    []byte
}

// Sink accepts lines.
type Sink interface {
	// Send delivers a batch. It returns the number of lines that the sink rejected. An error means
	// that nothing was delivered, or that it is unknown: the batch is sent again.
	Send(ctx context.Context, batch []Record) (rejected int, err error)
}

// Set holds the sinks of a node.
type Set struct {
	sinks map[string]*limited
	log   *slog.Logger
	wake  wake.Signal // pumps wait to be started

	mu      sync.Mutex
	pumps   map[string]*pump // that have not ended
	pending []*pump          // that Run has not started
}

// limited is a sink with a limit of batches in memory.
type limited struct {
	Sink
	name  string
	slots chan struct{}
}

// NewSet returns a set of sinks by name.
func NewSet(sinks map[string]Sink, log *slog.Logger) *Set {
	s := &Set{sinks: map[string]*limited{}, log: log, wake: wake.New(), pumps: map[string]*pump{}}
	for name, sink := range sinks {
		s.sinks[name] = &limited{sink, name, make(chan struct{}, maxBatches)}
	}
	return s
}

// Names returns the names of the sinks, sorted.
func (s *Set) Names() []string {
	if s == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(s.sinks))
}

// ErrUnknown means that the node does not have a sink.
var ErrUnknown = errors.New("this node has no such log sink: add the block log_sink to the client configuration")

// source is the log of a task. Dir is the allocation's directory.
type source struct {
	subject Subject
	dir     string
}

// Follow copies the logs of a task to sinks, from the stored positions. It does nothing for logs that
// are copied already. dir is the directory of the allocation.
func (s *Set) Follow(a *nomad.Allocation, task, dir string, names []string) error {
	src := source{dir: dir, subject: Subject{Namespace: a.Namespace, Job: a.JobID, Group: a.TaskGroup, Alloc: a.ID, AllocName: a.Name,
		Task: task, Node: a.NodeID}}
	for _, name := range names {
		sink := s.sinks[name]
		if sink == nil {
			return ErrUnknown
		}
		for _, kind := range []string{"stdout", "stderr"} {
			s.add(newPump(src, kind, sink, s.log))
		}
	}
	return nil
}

// add registers a pump for Run. A pump that finishes is asked to go on.
func (s *Set) add(p *pump) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.pumps[p.key()]; old != nil {
		old.again()
		return
	}
	s.pumps[p.key()] = p
	s.pending = append(s.pending, p)
	s.wake.Send()
}

// Finish lets the copying of a task's logs end when all of them were accepted. The task must have
// exited. It does not wait.
func (s *Set) Finish(alloc, task string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pumps {
		if p.src.subject.Alloc == alloc && p.src.subject.Task == task {
			p.finish()
		}
	}
}

// Run copies logs until ctx ends.
func (s *Set) Run(ctx context.Context) error {
	var work sync.WaitGroup
	defer work.Wait()
	for {
		s.mu.Lock()
		start := s.pending
		s.pending = nil
		s.mu.Unlock()
		for _, p := range start {
			work.Go(func() { s.run(ctx, p) })
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.wake:
		}
	}
}

// run runs a pump until its log has ended. Follow may have asked it to go on meanwhile.
func (s *Set) run(ctx context.Context, p *pump) {
	for {
		p.run(ctx)
		s.mu.Lock()
		if ctx.Err() != nil || p.finished() {
			delete(s.pumps, p.key())
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
	}
}
