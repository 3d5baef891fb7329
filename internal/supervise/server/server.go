// Package server is the supervisor: the process that starts, watches and reaps every task of a client, stores their
// exits until the client has fetched them, and moves their output to log files (package logs). It imports nothing of
// the agent's side. It never runs task code itself: each task is executed by a stage (internal/launch), the companion
// entry that its Spec names (internal/sandbox).
//
// A connection (accept.go) must present the secret. A peer executes its requests (peer.go). A start becomes a task
// (task.go) with a record on disk (store.go), which watch ends (exit.go). The next supervisor adopts the tasks of the
// records (adopt.go), or those of this process after an upgrade (handover.go).
//
//	(none) ──begin──▶ starting ──launch──▶ running ──watch──▶ exited ──forget──▶ (none)
//	                      └────undo────▶ (none)
//	record of an earlier supervisor ──adoptTask──▶ running or exited
//	                              └──error──▶ quarantined ──release──▶ running or exited
//
// Files, all below a directory of mode 0700 that the client owns:
//
//	lock                 held by the running supervisor; contains the boot ID of the last one
//	sock                 its socket; both ends check the peer's uid
//	secret               authenticates a connection; made once, by the first client
//	log                  its log
//	tasks                a link to a tmpfs directory, if there is one
//	tasks/<n>.quarantined a record that could not be adopted
//	tasks/<n>/meta       Task as JSON, written before and after the fork, and after the
//	                     execve if there is a PID namespace
//	tasks/<n>/declared   opaque data of the starter
//	tasks/<n>/status     the program's wait status, written by the init of its namespace
//	tasks/<n>/exit       Exit as JSON
//	tasks/<n>/{stdout,stderr} the log pipes
//
// When the supervisor dies, its tasks continue. Each holds its pipes open for reading too, and so
// never gets SIGPIPE. The next supervisor adopts the tasks by PID, start time and boot ID, and
// continues to read. Output that a task wrote just before its end, while no process held the pipe, is
// lost. The exit status of such a task may be unknown, unless the init of its PID namespace has written
// it. An upgrade executes the new program in place: children, pipes and lock are kept.
//
// A process that outlives the task and holds its pipe, as it can without a control group, is cut off after
// one second.
//
// Before the secret, the size of the request, the time, and the number of such connections are limited. A
// supervisor of an earlier version without a secret is upgraded in place by the first client that connects.
// An agent of such a version is refused.
//
// Goroutines: one accepts, one or two per connection, one per pipe and one per running task, all blocked in
// the poller.
package server

import (
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/cgroup"
	"github.com/open-nomad/open-nomad/internal/companion"
	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/internal/supervise/turns"
	"github.com/open-nomad/open-nomad/internal/supervise/wire"
)

// Entry is the name of the supervisor in package companion.
const Entry = "nomad-supervise"

// readyFD is the descriptor on which a new supervisor reports that it listens.
const readyFD = 3

// idle is how long a supervisor without tasks and clients stays.
const idle = 2 * time.Second

func init() { companion.Register(Entry, entry) }

// entry runs the supervisor: nomad-supervise <dir> <program> [kept descriptors].
func entry() int {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if len(os.Args) < 3 {
		log.Error("usage: " + Entry + " <directory> <program>")
		return 2
	}
	// Only a client ends the supervisor. The signals are caught, not ignored: tasks would inherit
	// that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM)
	debug.SetGCPercent(50)
	kept, err := inherited(os.Args[3:])
	if err == nil {
		err = supervise(log, os.Args[1], os.Args[2], kept)
	}
	if err != nil {
		log.Error("supervisor ends", "err", err)
		return 1
	}
	return 0
}

// server is the supervisor.
type server struct {
	log     *slog.Logger
	dir     *os.File
	program string // the client's name for our executable
	lock    *os.File
	listen  *os.File
	store   *store
	numbers sync.Mutex   // of the store
	ending  sync.RWMutex // read-locked from the end of a task until it is on disk
	turns   turns.Turns

	unauthenticated unauthenticated
	releasing       sync.Mutex // held during the adoption of a quarantined task

	mu          sync.Mutex
	tasks       map[string]*task         // nil during its start
	starts      map[string]chan struct{} // of starting tasks; closed when the start is over
	quarantined map[string]aside         // quarantined, by task
	unread      []record                 // quarantined, of unknown tasks
	clients     int
	sockets     []int // see keepSockets
	activity    time.Time
	closing     bool
}

func supervise(log *slog.Logger, dir, program string, kept *handover) error {
	if err := setOOMScore(); err != nil {
		log.Warn("protect the supervisor from the OOM killer", "err", err)
	}
	if err := leaveService(); err != nil {
		log.Warn("leave the agent's control group", "err", err)
	}
	root, err := os.Open(dir)
	if err != nil {
		return err
	}
	s := &server{log: log, dir: root, program: program, tasks: map[string]*task{}, starts: map[string]chan struct{}{},
		quarantined: map[string]aside{}, activity: time.Now(),
		turns: turns.ForStarts()}
	if err := s.acquire(kept); err != nil {
		return err
	}
	if _, err := wire.EnsureSecret(root); err != nil {
		return err
	}
	if err := removeUnused(dir); err != nil {
		log.Warn("remove the unused files of an earlier version", "err", err)
	}
	if err := s.adopt(dir, kept); err != nil {
		return err
	}
	if s.listen, err = wire.Listen(root); err != nil {
		return err
	}
	reportReady(kept)
	s.stopLater()
	defer s.store.tidy(dir)
	return s.serve()
}

// unusedName is a directory of empty log files that earlier versions made in advance.
const unusedName = "spare"

// removeUnused removes files that a supervisor of an earlier version left behind when it was killed
// or upgraded.
func removeUnused(dir string) error { return os.RemoveAll(filepath.Join(dir, unusedName)) }

// setOOMScore protects the supervisor from the OOM killer; the stage sets its own score.
func setOOMScore() error {
	if os.Geteuid() != 0 {
		return nil
	}
	return os.WriteFile("/proc/self/oom_score_adj", []byte("-900"), 0)
}

// leaveService moves the supervisor out of the control group of the agent's service, which a
// service manager stops as a whole.
func leaveService() error {
	h, err := cgroup.Detect()
	if err != nil || h.Usable() != nil {
		return nil
	}
	g, err := h.Create("nomad.slice", "supervise", cgroup.Limits{})
	if err != nil {
		return err
	}
	return g.Enter(os.Getpid())
}

func reportReady(kept *handover) {
	if kept != nil {
		return
	}
	ready := os.NewFile(readyFD, "ready")
	ready.WriteString("ok") //nolint:errcheck // the starter has ended: another client will find the socket
	ready.Close()
}

// endTimeout is how long a new supervisor waits for one that is about to end.
const endTimeout = 300 * time.Millisecond

// acquire takes the lock that only one supervisor holds. It waits for one that is about to end.
func (s *server) acquire(kept *handover) error {
	if kept != nil {
		s.lock = os.NewFile(uintptr(kept.Lock), "lock")
		return nil
	}
	var err error
	s.lock, err = os.OpenFile(filepath.Join(s.dir.Name(), wire.LockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := safefs.Lock(s.lock, endTimeout); err != nil {
		return fmt.Errorf("another supervisor runs in %s: %w", s.dir.Name(), err)
	}
	return nil
}

// stopLater ends the supervisor after a while if it is idle then. It is called whenever it may have
// become idle.
func (s *server) stopLater() { time.AfterFunc(idle, s.endIfIdle) }

// endIfIdle ends an idle supervisor. Exits that were not fetched stay on disk for the next one.
func (s *server) endIfIdle() {
	s.mu.Lock()
	end := !s.closing && s.clients == 0 && s.running() == 0 && time.Since(s.activity) >= idle
	if end {
		s.closing = true
	}
	s.mu.Unlock()
	if end {
		s.stop()
	}
}

// taskOver is called for each task that has ended.
func (s *server) taskOver() {
	s.mu.Lock()
	alone := s.clients == 0
	s.mu.Unlock()
	if alone {
		s.stopLater()
	}
}

// running counts the tasks that have not ended. The caller holds mu.
func (s *server) running() int {
	n := 0
	for _, t := range s.tasks {
		if t == nil || t.snapshot().Exit == nil {
			n++
		}
	}
	return n
}

// stop makes serve return.
func (s *server) stop() {
	unix.Unlinkat(int(s.dir.Fd()), wire.SockName, 0) //nolint:errcheck // the next supervisor replaces it
	s.listen.SetReadDeadline(time.Unix(1, 0))        //nolint:errcheck // a socket supports deadlines
}

// inherited reads the argument that an upgrade adds.
func inherited(args []string) (*handover, error) {
	if len(args) == 0 {
		return nil, nil
	}
	fd, err := strconv.Atoi(args[0])
	if err != nil {
		return nil, fmt.Errorf("handover descriptor: %w", err)
	}
	return readHandover(fd)
}
