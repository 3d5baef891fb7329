package supervise

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/supervise/proc"
	"github.com/open-nomad/open-nomad/internal/supervise/wire"
)

// answerAs starts a fake supervisor with the given answers, since such builds no longer exist. A
// nil answer closes the connection.
func answerAs(t *testing.T, answer func(*wire.Request) *wire.Response) (*Client, *bytes.Buffer) {
	t.Helper()
	dir, err := os.MkdirTemp("", "supervise") // short, for the path of a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	lock, err := os.Create(filepath.Join(dir, wire.LockName))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lock.Close() })
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "sock"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go serveAs(conn, answer)
		}
	}()
	log := new(bytes.Buffer)
	c := NewClient(dir, slog.New(slog.NewTextHandler(log, nil)))
	c.timeout = 0
	t.Cleanup(func() { c.Close() })
	return c, log
}

func serveAs(conn net.Conn, answer func(*wire.Request) *wire.Response) {
	defer conn.Close()
	for {
		req, err := wire.ReadRequest(conn)
		if err != nil {
			return
		}
		resp := answer(req)
		if resp == nil {
			return
		}
		resp.Seq = req.Seq
		if err := wire.WriteResponse(conn, resp); err != nil {
			return
		}
	}
}

var unknown = func() *wire.Response {
	r := &wire.Response{}
	r.SetError(proc.ErrUnknownTask)
	return r
}()

var oneTask = &wire.Response{Task: &proc.Task{ID: "a", PID: 7}}

// A supervisor of another build that cannot be upgraded serves running tasks. Whether it may start
// others depends on its secret and on the uid of tasks.
func TestSupervisorThatCannotBeUpgraded(t *testing.T) {
	for name, tc := range map[string]struct {
		guarded bool
		uid     int
		refused bool
	}{
		"no secret, agent of root":       {false, 0, false},
		"no secret, agent of a user":     {false, 1000, true},
		"with a secret, agent of a user": {true, 1000, false},
		"with a secret, agent of root":   {true, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			var starts, upgrades atomic.Int32
			c, log := answerAs(t, func(req *wire.Request) *wire.Response {
				switch req.Op {
				case wire.OpHello:
					return &wire.Response{Program: "earlier", Guarded: tc.guarded}
				case wire.OpUpgrade:
					upgrades.Add(1)
					return &wire.Response{Err: "the program cannot be executed"}
				case wire.OpStart:
					starts.Add(1)
				}
				return &wire.Response{Task: oneTask.Task}
			})
			c.uid = tc.uid
			if _, err := c.Task(t.Context(), "a"); err != nil {
				t.Errorf("Task() = %v", err)
			}
			if !strings.Contains(log.String(), "new tasks may be refused") || !strings.Contains(log.String(), "the program cannot be executed") {
				t.Errorf("the log has no details:\n%s", log)
			}
			_, err := c.Start(t.Context(), &proc.Spec{ID: "a"})
			if refused := err != nil && strings.Contains(err.Error(), "does not protect its socket"); refused != tc.refused ||
				(err != nil) != tc.refused {
				t.Errorf("Start() = %v, want refused %t", err, tc.refused)
			}
			if n := starts.Load(); (n != 0) == tc.refused {
				t.Errorf("the supervisor was asked for %d starts", n)
			}
			if n := upgrades.Load(); n != 2 {
				t.Errorf("%d attempts of an upgrade, want one at first and one before the start", n)
			}
		})
	}
}

// A start without an answer has failed only if the next supervisor does not know the task.
func TestStartWithoutAnswer(t *testing.T) {
	for name, tc := range map[string]struct {
		answers []*wire.Response // to the query for the task; the last one is repeated
		started bool
	}{
		"started":                  {[]*wire.Response{oneTask}, true},
		"unreadable at first":      {[]*wire.Response{{Err: "read the record: input/output error"}, oneTask}, true},
		"lost again":               {[]*wire.Response{nil, oneTask}, true},
		"not started":              {[]*wire.Response{unknown}, false},
		"unreadable, then unknown": {[]*wire.Response{{Err: "read the record: input/output error"}, unknown}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int32
			c, _ := answerAs(t, func(req *wire.Request) *wire.Response {
				switch req.Op {
				case wire.OpHello:
					return &wire.Response{Program: program(), Guarded: true}
				case wire.OpTask:
					answer := tc.answers[min(int(asked.Add(1)), len(tc.answers))-1]
					if answer == nil {
						return nil
					}
					again := *answer
					return &again
				}
				return nil
			})
			task, err := c.Start(t.Context(), &proc.Spec{ID: "a"})
			if tc.started && (err != nil || task.PID != 7) || !tc.started && !errors.Is(err, ErrLost) {
				t.Errorf("Start() = %+v, %v, want started %t", task, err, tc.started)
			}
			if n := int(asked.Load()); n != len(tc.answers) {
				t.Errorf("asked %d times, want %d", n, len(tc.answers))
			}
		})
	}
	c, _ := answerAs(t, func(req *wire.Request) *wire.Response {
		if req.Op == wire.OpStart {
			return nil
		}
		return &wire.Response{Program: program(), Err: map[bool]string{true: "no"}[req.Op == wire.OpTask]}
	})
	ctx, cancel := context.WithCancel(t.Context())
	c.log = slog.New(slog.NewTextHandler(writerFunc(cancel), nil)) // a warning ends the start
	if _, err := c.Start(ctx, &proc.Spec{ID: "a"}); !errors.Is(err, context.Canceled) || errors.Is(err, ErrLost) {
		t.Errorf("Start() whose context ends = %v, want an unknown outcome", err)
	}
}

// writerFunc is a writer that calls a function.
type writerFunc func()

func (f writerFunc) Write(b []byte) (int, error) {
	f()
	return len(b), nil
}
