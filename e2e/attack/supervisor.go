package attack

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/sandbox"
	"github.com/open-nomad/open-nomad/internal/supervise/proc"
)

// answerPatience bounds the wait for the supervisor's answers.
const answerPatience = 5 * time.Second

// supervisorRequest has the fields of a request to the supervisor that a start needs.
type supervisorRequest struct {
	Seq    uint64
	Op     string
	Secret string     `json:",omitempty"`
	Spec   *proc.Spec `json:",omitempty"`
}

// startBySupervisor asks the supervisor to start a program without a sandbox. It uses the secret of
// the supervisor if the task can read that.
func startBySupervisor(t *Targets) error {
	dir, name := filepath.Split(t.SupervisorSocket)
	secret, err := os.ReadFile(filepath.Join(dir, "secret"))
	if err != nil {
		secret = []byte(strings.Repeat("0", 64))
	}
	policy, err := sandbox.Encode(&sandbox.Policy{Argv: []string{"/bin/true"}, Dir: "/", KeepCapabilities: true,
		KeepPrivileges: true, Seccomp: sandbox.SeccompNone})
	if err != nil {
		return err
	}
	if err := unix.Chdir(dir); err != nil { // the full path may be too long for an address
		return err
	}
	conn, err := net.Dial("unix", name)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(answerPatience)); err != nil {
		return err
	}
	err = askSupervisor(conn, supervisorRequest{Seq: 1, Op: "hello", Secret: strings.TrimSpace(string(secret))})
	if err != nil {
		return err
	}
	spec := &proc.Spec{ID: "attack", Entry: sandbox.Entry, Policy: policy}
	spec.Logs.Disabled = true
	return askSupervisor(conn, supervisorRequest{Seq: 2, Op: "start", Spec: spec})
}

// askSupervisor sends a request and returns EACCES if it is rejected.
func askSupervisor(conn net.Conn, request supervisorRequest) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	frame := binary.BigEndian.AppendUint32(nil, uint32(len(body)))
	if _, err := conn.Write(append(frame, body...)); err != nil {
		return err
	}
	var size [4]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return unix.ETIMEDOUT
		}
		return err
	}
	body = make([]byte, min(binary.BigEndian.Uint32(size[:]), 1<<20))
	if _, err := io.ReadFull(conn, body); err != nil {
		return err
	}
	var answer struct{ Err, Kind string }
	if err := json.Unmarshal(body, &answer); err != nil {
		return err
	}
	switch {
	case answer.Err == "":
		return nil
	case answer.Kind == "refused":
		return unix.EACCES
	}
	return errors.New(answer.Err)
}
