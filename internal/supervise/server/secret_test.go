package server_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// wire is a raw connection to the supervisor of a rig.
type wire struct {
	t    *testing.T
	conn net.Conn
}

func (r *rig) wire(t *testing.T) *wire {
	t.Helper()
	w, err := r.dial(t)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// dial is wire for a supervisor during an upgrade.
func (r *rig) dial(t *testing.T) (*wire, error) {
	t.Helper()
	dir, err := os.Open(r.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	conn, err := net.Dial("unix", fmt.Sprintf("/proc/self/fd/%d/sock", dir.Fd()))
	for errors.Is(err, unix.EAGAIN) { // the supervisor's backlog is full
		runtime.Gosched()
		conn, err = net.Dial("unix", fmt.Sprintf("/proc/self/fd/%d/sock", dir.Fd()))
	}
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return &wire{t, conn}, nil
}

// ask sends a request and returns the answer; false if the connection was closed.
func (w *wire) ask(req string) (answer struct{ Err, Program string }, ok bool) {
	w.t.Helper()
	frame := binary.BigEndian.AppendUint32(nil, uint32(len(req)))
	if _, err := w.conn.Write(append(frame, req...)); err != nil {
		return answer, false
	}
	var size [4]byte
	if _, err := io.ReadFull(w.conn, size[:]); err != nil {
		return answer, false
	}
	body := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(w.conn, body); err != nil {
		return answer, false
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		w.t.Fatal(err)
	}
	return answer, true
}

func (r *rig) secret(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(r.dir, "secret"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// TestConnectionNeedsSecret connects as a task of a rootless agent can: with the uid of the agent,
// but without its secret.
func TestConnectionNeedsSecret(t *testing.T) {
	r := newRig(t)
	r.start(r.client(), r.spec("sleep 1000"))
	for name, requests := range map[string][]string{
		"list":            {`{"Seq":1,"Op":"list"}`},
		"start":           {`{"Seq":1,"Op":"start","Spec":{"ID":"x","Entry":"nomad-sandbox","Policy":"e30=","Logs":{"Disabled":true}}}`},
		"upgrade":         {`{"Seq":1,"Op":"upgrade","Path":"/bin/true","Program":"x"}`},
		"shutdown":        {`{"Seq":1,"Op":"shutdown"}`},
		"hello":           {`{"Seq":1,"Op":"hello"}`, `{"Seq":2,"Op":"list"}`},
		"empty secret":    {`{"Seq":1,"Op":"hello","Secret":""}`, `{"Seq":2,"Op":"list"}`},
		"other secret":    {`{"Seq":1,"Op":"hello","Secret":"` + strings.Repeat("0", 64) + `"}`, `{"Seq":2,"Op":"list"}`},
		"part of secret":  {`{"Seq":1,"Op":"hello","Secret":"` + strings.Repeat("0", 8) + `"}`, `{"Seq":2,"Op":"list"}`},
		"secret too late": {`{"Seq":1,"Op":"list","Secret":"SECRET"}`, `{"Seq":2,"Op":"hello","Secret":"SECRET"}`},
		"long first part": {`{"Seq":1,"Op":"hello","Secret":"SECRET","ID":"` + strings.Repeat("x", 64<<10) + `"}`},
	} {
		t.Run(name, func(t *testing.T) {
			w := r.wire(t)
			for _, req := range requests {
				if strings.Contains(req, "SECRET") {
					req = strings.ReplaceAll(req, "SECRET", r.secret(t))
				}
				if answer, ok := w.ask(req); ok && answer.Err == "" {
					t.Errorf("%.60s: answered %+v, want a refusal", req, answer)
				}
			}
		})
	}
	w := r.wire(t)
	if answer, ok := w.ask(`{"Seq":1,"Op":"hello","Secret":"` + r.secret(t) + `"}`); !ok || answer.Err != "" || answer.Program == "" {
		t.Errorf("with the secret: %+v, %t", answer, ok)
	}
	if answer, ok := w.ask(`{"Seq":2,"Op":"list"}`); !ok || answer.Err != "" {
		t.Errorf("list after the secret: %+v, %t", answer, ok)
	}
}

// TestSecretStays checks that the file survives agents and supervisors.
func TestSecretStays(t *testing.T) {
	r := newRig(t)
	c := r.client()
	s := r.spec("sleep 1000")
	r.start(c, s)
	name := filepath.Join(r.dir, "secret")
	if st, err := os.Lstat(name); err != nil || st.Mode() != 0o600 {
		t.Fatalf("secret: %v, %v, want mode 0600", st, err)
	}
	first := r.secret(t)
	r.upgrade(c)
	r.crash()
	c.Close()
	if _, err := r.client().Task(t.Context(), s.ID); err != nil {
		t.Errorf("Task() of the next agent = %v", err)
	}
	if got := r.secret(t); got != first {
		t.Error("the secret changed")
	}
}

// TestSilentConnections checks that many connections that never present the secret do not block
// clients.
func TestSilentConnections(t *testing.T) {
	r := newRig(t)
	c := r.client()
	r.start(c, r.spec("sleep 1000"))
	first := r.wire(t)
	for range 200 {
		r.wire(t)
	}
	if _, err := r.client().Tasks(t.Context()); err != nil {
		t.Errorf("Tasks() = %v", err)
	}
	if _, err := first.conn.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
		t.Errorf("the oldest connection without a secret: %v, want it closed", err)
	}
}

// TestBadSecretFile checks that a file that others could have written or read is refused.
func TestBadSecretFile(t *testing.T) {
	for name, spoil := range map[string]func(name string) error{
		"mode":  func(name string) error { return os.Chmod(name, 0o644) },
		"link":  func(name string) error { return os.Link(name, name+".other") },
		"empty": func(name string) error { return os.Truncate(name, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.start(r.client(), r.spec("true"))
			at := filepath.Join(r.dir, "secret")
			text := r.secret(t)
			if err := spoil(at); err != nil {
				t.Fatal(err)
			}
			if answer, ok := r.wire(t).ask(`{"Seq":1,"Op":"hello","Secret":"` + text + `"}`); ok && answer.Err == "" {
				t.Error("the supervisor accepts it")
			}
			if _, err := r.client().Tasks(t.Context()); err == nil || strings.Contains(err.Error(), text) {
				t.Errorf("Tasks() = %v, want an error without the secret", err)
			}
			if err := os.WriteFile(at+".new", []byte(text+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(at+".new", at); err != nil {
				t.Fatal(err)
			}
		})
	}
}
