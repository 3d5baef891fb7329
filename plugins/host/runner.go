package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/launch"
	"github.com/open-nomad/open-nomad/plugins/wire"
)

// runner runs one process of a program. It implements go-plugin's runner.Runner, so that the handshake
// can be checked before go-plugin reads it.
type runner struct {
	file *os.File
	name string
	args []string
	cmd  *exec.Cmd // with the environment of go-plugin
	log  *slog.Logger

	out, errs *os.File // read ends
	in        *io.PipeWriter
	line      *io.PipeReader // the handshake, as go-plugin reads it
	socket    string         // set by the handshake
	tail      tail           // of the output, for errors
	ended     chan struct{}  // closed when the process has ended
	exit      string         // valid when it has
	reading   sync.WaitGroup
}

// passed are the variables of the agent that a program gets. Others may be secrets.
var passed = []string{"PATH", "TMPDIR"}

// environment keeps what the protocol needs and what is passed on.
func environment(protocol []string) []string {
	env := slices.Clone(protocol)
	for _, name := range passed {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// script is the beginning of a program whose interpreter opens it by name.
const script = "#!"

// Start starts the process and reads its handshake, until ctx ends.
func (r *runner) Start(ctx context.Context) error {
	r.ended = make(chan struct{})
	r.line, r.in = io.Pipe()
	if err := r.fork(); err != nil {
		return err
	}
	r.reading.Go(func() { readLog(r.errs, r.log, &r.tail) })
	go r.wait()
	line, err := r.handshake(ctx)
	if err != nil {
		r.cmd.Process.Kill() //nolint:errcheck // it may have ended
		<-r.ended
		r.reading.Wait()
		r.finish()
		return fmt.Errorf("%w%s", err, r.tail.quote())
	}
	r.reading.Go(func() { io.Copy(io.Discard, r.out) }) //nolint:errcheck // the protocol ends with the first line
	go func() {
		io.WriteString(r.in, line+"\n") //nolint:errcheck // go-plugin reads until the end
		<-r.ended
		r.reading.Wait()
		r.finish()
	}()
	return nil
}

// fork starts the process, by its descriptor: the file that was checked is the one that is executed.
func (r *runner) fork() error {
	outR, outW, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("start %s: %w", r.name, err)
	}
	errR, errW, err := os.Pipe()
	if err != nil {
		outR.Close()
		outW.Close()
		return fmt.Errorf("start %s: %w", r.name, err)
	}
	defer outW.Close()
	defer errW.Close()
	r.out, r.errs = outR, errR
	// The path names this process: a child moves descriptors and may replace the file's.
	cmd := &exec.Cmd{Path: fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), r.file.Fd()), Args: append([]string{r.name}, r.args...),
		Env: environment(r.cmd.Env), Dir: "/", Stdout: outW, Stderr: errW,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}}
	begin := make([]byte, len(script))
	if _, err := r.file.ReadAt(begin, 0); err == nil && string(begin) == script {
		cmd.ExtraFiles, cmd.Path = []*os.File{r.file}, "/proc/self/fd/3"
	}
	r.cmd = cmd
	if err := closeOnExec(); err != nil {
		outR.Close()
		errR.Close()
		return fmt.Errorf("start %s: %w", r.name, err)
	}
	launch.OnThread(func() { err = cmd.Start() })
	if err != nil {
		outR.Close()
		errR.Close()
		if path, ok := errors.AsType[*os.PathError](err); ok {
			err = path.Err // the path is that of a descriptor
		}
		return fmt.Errorf("start %s: %w", r.name, err)
	}
	return nil
}

// closeOnExec keeps the descriptors that the agent itself has inherited, such as those of a service
// manager, from its programs. Go's own have the flag already.
func closeOnExec() error {
	err := unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)
	if err == nil || err != unix.ENOSYS && err != unix.EINVAL { // Linux 5.11
		return err
	}
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range list {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

// outlived is how long a descendant that has the output open is waited for.
const outlived = time.Second

// wait waits for the end of the process, and then for the end of its output.
func (r *runner) wait() {
	err := r.cmd.Wait()
	r.exit = "ended"
	if err != nil {
		r.exit = "ended with " + err.Error()
	}
	late := time.Now().Add(outlived)
	r.out.SetReadDeadline(late)  //nolint:errcheck // pipes support deadlines
	r.errs.SetReadDeadline(late) //nolint:errcheck // as above
	close(r.ended)
}

// finish closes the output, which go-plugin waits for.
func (r *runner) finish() {
	r.out.Close()
	r.errs.Close()
	r.in.Close()
	r.file.Close()
}

// maxHandshake limits the first line of a program.
const maxHandshake = 4 << 10

// handshake reads and checks the first line.
func (r *runner) handshake(ctx context.Context) (string, error) {
	if at, ok := ctx.Deadline(); ok {
		r.out.SetReadDeadline(at) //nolint:errcheck // pipes support deadlines
	}
	var line []byte
	for b := make([]byte, 1); ; {
		n, err := r.out.Read(b)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			select {
			case <-r.ended: // the deadline is that of wait
				return "", fmt.Errorf("%s %s before its handshake", r.name, r.exit)
			default:
				return "", fmt.Errorf("%s sent no handshake in time", r.name)
			}
		case err != nil:
			r.tail.Write(line) //nolint:errcheck // never fails
			select {
			case <-r.ended:
				return "", fmt.Errorf("%s %s before its handshake", r.name, r.exit)
			case <-ctx.Done():
				return "", fmt.Errorf("%s closed its output before its handshake", r.name)
			}
		case n == 0:
		case b[0] == '\n':
			r.out.SetReadDeadline(time.Time{}) //nolint:errcheck // as above
			return string(line), r.check(string(line))
		case len(line) >= maxHandshake:
			return "", fmt.Errorf("%s sent no handshake, but %q", r.name, wire.Clip(string(line)))
		default:
			line = append(line, b[0])
		}
	}
}

// Fields of the handshake: core version, protocol version, network, address, kind, certificate.
const handshakeFields = 5

// maxCertificate is the length from which go-plugin takes a field for a certificate. Only clients that
// asked for one can use it.
const maxCertificate = 50

func (r *runner) check(line string) error {
	f := strings.Split(strings.TrimSpace(line), "|")
	switch {
	case len(f) < handshakeFields:
		return fmt.Errorf("%s sent no handshake, but %q", r.name, wire.Clip(line))
	case f[0] != "1":
		return fmt.Errorf("%s has version %q of the handshake, and this version supports only 1", r.name, wire.Clip(f[0]))
	case f[1] != strconv.Itoa(wire.ProtocolVersion):
		return fmt.Errorf("%s has version %q of the plugin protocol, and this version supports only %d", r.name, wire.Clip(f[1]),
			wire.ProtocolVersion)
	case f[2] != "unix" || !filepath.IsAbs(f[3]):
		return fmt.Errorf("%s listens on %q %q, and only a unix socket is supported", r.name, wire.Clip(f[2]), wire.Clip(f[3]))
	case f[4] != "grpc":
		return fmt.Errorf("%s speaks %q, and only grpc is supported", r.name, wire.Clip(f[4]))
	case len(f) > handshakeFields && len(f[5]) >= maxCertificate:
		return fmt.Errorf("%s sent a certificate, which it was not asked for", r.name)
	}
	r.socket = f[3]
	return nil
}

// Wait implements runner.Runner.
func (r *runner) Wait(context.Context) error {
	<-r.ended
	return nil
}

// Kill implements runner.Runner.
func (r *runner) Kill(context.Context) error {
	if r.cmd.Process == nil {
		return nil
	}
	if err := r.cmd.Process.Kill(); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// Stdout implements runner.Runner: the handshake, and then nothing until the process ends.
func (r *runner) Stdout() io.ReadCloser { return r.line }

// Stderr implements runner.Runner. The runner itself reads the log of the program.
func (r *runner) Stderr() io.ReadCloser { return io.NopCloser(strings.NewReader("")) }

// Name implements runner.Runner.
func (r *runner) Name() string { return r.name }

// ID implements runner.Runner.
func (r *runner) ID() string {
	if r.cmd.Process == nil {
		return "none" // go-plugin removes the directory of the socket only with an ID
	}
	return strconv.Itoa(r.cmd.Process.Pid)
}

// Diagnose implements runner.Runner.
func (r *runner) Diagnose(context.Context) string { return "" }

// PluginToHost implements runner.Runner.
func (r *runner) PluginToHost(network, address string) (string, string, error) {
	return network, address, nil
}

// HostToPlugin implements runner.Runner.
func (r *runner) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}
