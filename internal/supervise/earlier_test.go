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
)

// answerAs starts a fake supervisor with the given answers, since such builds no longer exist. A
// nil answer closes the connection.
func answerAs(t *testing.T, answer func(*request) *response) (*Client, *bytes.Buffer) {
	t.Helper()
	dir, err := os.MkdirTemp("", "supervise") // short, for the path of a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	lock, err := os.Create(filepath.Join(dir, lockName))
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
	c.patient = 0
	t.Cleanup(func() { c.Close() })
	return c, log
}

func serveAs(conn net.Conn, answer func(*request) *response) {
	defer conn.Close()
	for {
		req, err := readRequest(conn)
		if err != nil {
			return
		}
		resp := answer(req)
		if resp == nil {
			return
		}
		resp.Seq = req.Seq
		if err := writeFrame(conn, resp); err != nil {
			return
		}
	}
}

var oneTask = &response{Task: &proc.Task{ID: "a", PID: 7}}

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
			c, log := answerAs(t, func(req *request) *response {
				switch req.Op {
				case opHello:
					return &response{Program: "earlier", Guarded: tc.guarded}
				case opUpgrade:
					upgrades.Add(1)
					return &response{Err: "the program cannot be executed"}
				case opStart:
					starts.Add(1)
				}
				return &response{Task: oneTask.Task}
			})
			c.uid = tc.uid
			if _, err := c.Task(t.Context(), "a"); err != nil {
				t.Errorf("Task() = %v", err)
			}
			if !strings.Contains(log.String(), "new tasks may be refused") || !strings.Contains(log.String(), "the program cannot be executed") {
				t.Errorf("the log has no details:\n%s", log)
			}
			_, err := c.Start(t.Context(), &Spec{ID: "a"})
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
		answers []*response // to the query for the task; the last one is repeated
		started bool
	}{
		"started":                  {[]*response{oneTask}, true},
		"unreadable at first":      {[]*response{{Err: "read the record: input/output error"}, oneTask}, true},
		"lost again":               {[]*response{nil, oneTask}, true},
		"not started":              {[]*response{{Err: "unknown", Kind: kindUnknown}}, false},
		"unreadable, then unknown": {[]*response{{Err: "read the record: input/output error"}, {Err: "unknown", Kind: kindUnknown}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int32
			c, _ := answerAs(t, func(req *request) *response {
				switch req.Op {
				case opHello:
					return &response{Program: program(), Guarded: true}
				case opTask:
					answer := tc.answers[min(int(asked.Add(1)), len(tc.answers))-1]
					if answer == nil {
						return nil
					}
					again := *answer
					return &again
				}
				return nil
			})
			task, err := c.Start(t.Context(), &Spec{ID: "a"})
			if tc.started && (err != nil || task.PID != 7) || !tc.started && !errors.Is(err, ErrLost) {
				t.Errorf("Start() = %+v, %v, want started %t", task, err, tc.started)
			}
			if n := int(asked.Load()); n != len(tc.answers) {
				t.Errorf("asked %d times, want %d", n, len(tc.answers))
			}
		})
	}
	c, _ := answerAs(t, func(req *request) *response {
		if req.Op == opStart {
			return nil
		}
		return &response{Program: program(), Err: map[bool]string{true: "no"}[req.Op == opTask]}
	})
	ctx, cancel := context.WithCancel(t.Context())
	c.log = slog.New(slog.NewTextHandler(writerFunc(cancel), nil)) // a warning ends the start
	if _, err := c.Start(ctx, &Spec{ID: "a"}); !errors.Is(err, context.Canceled) || errors.Is(err, ErrLost) {
		t.Errorf("Start() whose context ends = %v, want an unknown outcome", err)
	}
}

// writerFunc is a writer that calls a function.
type writerFunc func()

func (f writerFunc) Write(b []byte) (int, error) {
	f()
	return len(b), nil
}
