package supervise

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/supervise/proc"
)

// readAhead is the size of the read buffer.
const readAhead = 32 << 10

// maxFrame limits one message; a task's environment and arguments fit.
const maxFrame = 64 << 20

// Operations of a request.
const (
	opHello    = "hello"    // Secret → Program, Apart, Guarded; the first request of a connection
	opStart    = "start"    // Spec → Task
	opCollect  = "collect"  // ID, Spec with Logs only → Task with Pipes; repeatable
	opList     = "list"     // Faulty → Tasks
	opTask     = "task"     // ID, Brief → Task
	opWait     = "wait"     // ID → Task with Exit, when it ended
	opSignal   = "signal"   // ID, Signal
	opKill     = "kill"     // ID; answered when the task ended
	opForget   = "forget"   // ID of an exited task
	opUpgrade  = "upgrade"  // Path, Program; no answer: the connection closes
	opShutdown = "shutdown" // kills every task, ends; no answer
	opRest     = "rest"     // ends, unless a task runs or another client is connected
)

type request struct {
	Seq     uint64
	Op      string
	Apart   bool   `json:",omitempty"` // two frames follow: the policy of Spec and its Declared, unencoded
	ID      string `json:",omitempty"`
	Spec    *Spec  `json:",omitempty"`
	Signal  int    `json:",omitempty"`
	Path    string `json:",omitempty"`
	Program string `json:",omitempty"`
	Secret  string `json:",omitempty"`
	Faulty  bool   `json:",omitempty"` // list only tasks with LogFaults
	Brief   bool   `json:",omitempty"` // task without Declared; earlier builds send it
}

type response struct {
	Seq     uint64
	Err     string      `json:",omitempty"`
	Kind    string      `json:",omitempty"` // kind of error
	Task    *proc.Task  `json:",omitempty"`
	Tasks   []proc.Task `json:",omitempty"`
	Program string      `json:",omitempty"`
	Apart   bool        `json:",omitempty"` // requests with separate parts are supported
	Guarded bool        `json:",omitempty"` // connections without the secret are refused
}

// Kinds of errors that a client distinguishes.
const (
	kindUnknown = "unknown-task"
	kindStart   = "start"
	kindRunning = "running"
	kindRefused = "refused"
)

// writeFrame writes v, and the separate parts, in one write.
func writeFrame(w io.Writer, v any, apart ...[]byte) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	var frames []byte
	for _, b := range append([][]byte{body}, apart...) {
		if len(b) > maxFrame {
			return fmt.Errorf("message of %d bytes is too long", len(b))
		}
		frames = append(binary.BigEndian.AppendUint32(frames, uint32(len(b))), b...)
	}
	_, err = w.Write(frames)
	return err
}

func readFrame(r io.Reader, v any) error { return readFrameUpTo(r, v, maxFrame) }

func readFrameUpTo(r io.Reader, v any, limit uint32) error {
	body, err := readPart(r, limit)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("decode message: %w", err)
	}
	return nil
}

// readPart reads one unencoded frame.
func readPart(r io.Reader, limit uint32) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > limit {
		return nil, fmt.Errorf("message of %d bytes is too long", n)
	}
	body := make([]byte, n)
	_, err := io.ReadFull(r, body)
	return body, err
}

// writeRequest sends the policy of a start as a separate part if the peer supports it. Encoding and
// decoding it as JSON would cost more than everything else in a start.
func writeRequest(w io.Writer, req *request, apart bool) error {
	if req.Spec == nil || !apart {
		return writeFrame(w, req)
	}
	r, spec := *req, *req.Spec
	r.Apart, r.Spec = true, &spec
	spec.Policy, spec.Declared = nil, nil
	return writeFrame(w, &r, req.Spec.Policy, req.Spec.Declared)
}

func readRequest(r io.Reader) (*request, error) {
	req := new(request)
	if err := readFrame(r, req); err != nil || !req.Apart {
		return req, err
	}
	if req.Spec == nil {
		return nil, errors.New("message without its parts")
	}
	var err error
	if req.Spec.Policy, err = readPart(r, maxFrame); err != nil {
		return nil, err
	}
	req.Spec.Declared, err = readPart(r, maxFrame)
	return req, err
}

// Names in the supervisor's directory.
const (
	sockName = "sock"
	lockName = "lock"
)

// address refers to the socket through a descriptor of its directory, since the path of a socket is
// limited to 107 bytes.
func address(dir *os.File) *unix.SockaddrUnix {
	return &unix.SockaddrUnix{Name: fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), sockName)}
}

const sockFlags = unix.SOCK_STREAM | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK

// listen makes the socket and replaces that of a dead supervisor. The caller holds the lock.
func listen(dir *os.File) (*os.File, error) {
	if err := unix.Unlinkat(int(dir.Fd()), sockName, 0); err != nil && err != unix.ENOENT {
		return nil, fmt.Errorf("remove old socket: %w", err)
	}
	fd, err := unix.Socket(unix.AF_UNIX, sockFlags, 0)
	if err != nil {
		return nil, fmt.Errorf("make socket: %w", err)
	}
	f := os.NewFile(uintptr(fd), sockName)
	old := unix.Umask(0o177)
	err = unix.Bind(fd, address(dir))
	unix.Umask(old)
	if err == nil {
		err = unix.Listen(fd, 64)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("listen: %w", err)
	}
	return f, nil
}

// accept waits for a connection of the same user.
func accept(l *os.File) (*os.File, error) {
	conn, err := l.SyscallConn()
	if err != nil {
		return nil, err
	}
	var fd int
	var opErr error
	err = conn.Read(func(s uintptr) bool {
		fd, _, opErr = unix.Accept4(int(s), unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		return opErr != unix.EAGAIN
	})
	if err == nil {
		err = opErr
	}
	if err != nil {
		return nil, fmt.Errorf("accept: %w", err)
	}
	return os.NewFile(uintptr(fd), "peer"), nil
}

// dial connects to the supervisor of dir.
func dial(dir *os.File) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_UNIX, sockFlags, 0)
	if err != nil {
		return nil, fmt.Errorf("make socket: %w", err)
	}
	if err := unix.Connect(fd, address(dir)); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("connect to the supervisor: %w", err)
	}
	f := os.NewFile(uintptr(fd), "supervisor")
	if err := checkPeer(f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// checkPeer refuses a peer of another user.
func checkPeer(f *os.File) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	var opErr error
	if err := conn.Control(func(fd uintptr) {
		cred, opErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return err
	}
	if opErr != nil {
		return fmt.Errorf("read peer credentials: %w", opErr)
	}
	if int(cred.Uid) != os.Geteuid() {
		return fmt.Errorf("peer has uid %d, want %d", cred.Uid, os.Geteuid())
	}
	return nil
}
