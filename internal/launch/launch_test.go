//go:build amd64 || arm64

package launch_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/companion"
	"github.com/open-nomad/open-nomad/internal/launch"
	"github.com/open-nomad/open-nomad/internal/sandbox"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

func TestMain(m *testing.M) {
	companion.Main()
	os.Exit(m.Run())
}

// run is a program under a stage.
type run struct {
	*launch.Process
	t   *testing.T
	in  *os.File
	out *bufio.Reader
}

// edit changes the parameters of a start.
type edit func(*launch.Start, *sandbox.Policy)

// begin starts a shell script.
func begin(t *testing.T, script string, edit edit) *run {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: namespaces")
	}
	p := &sandbox.Policy{Argv: []string{"/bin/sh", "-c", script}, Dir: "/", Env: sandbox.Environment{"PATH=/usr/bin:/bin"},
		KeepCapabilities: true, KeepPrivileges: true, Seccomp: sandbox.SeccompNone}
	in, stdin := pipe(t)
	stdout, out := pipe(t)
	s := &launch.Start{Program: companion.Path(), Entry: sandbox.Entry, Stdio: [3]*os.File{in, out, out}}
	if edit != nil {
		edit(s, p)
	}
	raw, err := sandbox.Encode(p)
	if err != nil {
		t.Fatal(err)
	}
	s.Policy = raw
	r := startRun(t, s, stdin, stdout)
	in.Close()
	out.Close()
	return r
}

// startRun forks the stage. The caller owns the ends of its pipes.
func startRun(t *testing.T, s *launch.Start, stdin, stdout *os.File) *run {
	t.Helper()
	proc, err := s.Fork()
	if err != nil {
		t.Fatalf("Fork() = %v", err)
	}
	t.Cleanup(func() {
		unix.Kill(proc.PID, unix.SIGKILL) //nolint:errcheck // usually reaped already
		proc.Wait()                       //nolint:errcheck // usually reaped already
		proc.Close()
		proc.Pidfd.Close()
	})
	return &run{Process: proc, t: t, in: stdin, out: bufio.NewReader(stdout)}
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// ready fails the test unless the program runs.
func (r *run) ready() *run {
	r.t.Helper()
	if reason, err := r.Ready(); err != nil || reason != "" {
		r.t.Fatalf("Ready() = %q, %v", reason, err)
	}
	return r
}

func (r *run) line() string {
	r.t.Helper()
	s, err := r.out.ReadString('\n')
	if err != nil {
		r.t.Fatalf("read a line: %v, have %q", err, s)
	}
	return strings.TrimSpace(s)
}

func (r *run) wait() unix.WaitStatus {
	r.t.Helper()
	ws, err := r.Wait()
	if err != nil {
		r.t.Fatalf("Wait() = %v", err)
	}
	return ws
}

func ownPIDs(s *launch.Start, p *sandbox.Policy) { s.Init, p.PrivatePID = true, true }

// TestRoomForDescriptors checks the size of the descriptor table: growing it in a process with
// threads costs an RCU grace period.
func TestRoomForDescriptors(t *testing.T) {
	r := begin(t, "while read name n; do [ $name = FDSize: ] && echo $n; done < /proc/self/status; ls /proc/self/fd | xargs", ownPIDs).ready()
	if n, err := strconv.Atoi(r.line()); err != nil || n < 256 {
		t.Errorf("the program has a table for %d descriptors (%v), want 256", n, err)
	}
	if got := r.line(); got != "0 1 2 3" { // 3 is that of ls
		t.Errorf("the program's descriptors are %q", got)
	}
}

// TestTimersAreInTime checks that the program and its children have the timer slack of the starter,
// unlike the stage.
func TestTimersAreInTime(t *testing.T) {
	const slack = 70_000
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, slack, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	defer unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0) //nolint:errcheck // restore the default
	for name, edit := range map[string]edit{"stage": nil, "init": ownPIDs} {
		r := begin(t, "read x < /proc/self/timerslack_ns; echo $x; cat /proc/self/timerslack_ns", edit).ready()
		if own, child := r.line(), r.line(); own != strconv.Itoa(slack) || child != own {
			t.Errorf("%s: timers of the program may be %s ns late, of its child %s, want %d", name, own, child, slack)
		}
	}
}

// TestIgnoredSignals checks that the program does not inherit ignored signals of the starter.
func TestIgnoredSignals(t *testing.T) {
	ignored := []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGUSR1, syscall.SIGTTOU}
	signal.Ignore(ignored...)
	defer signal.Reset(ignored...)
	mask := map[string]uint64{"blocked": ^uint64(0)} // of the checked signals: some shells ignore signals themselves
	for _, sig := range ignored {
		mask["ignored"] |= 1 << (sig.(syscall.Signal) - 1)
	}
	for name, edit := range map[string]edit{"stage": nil, "init": ownPIDs} {
		r := begin(t, "while read name set; do case $name in SigIgn:|SigBlk:) echo $set;; esac; done < /proc/self/status", edit).ready()
		for _, set := range []string{"blocked", "ignored"} {
			if got, err := strconv.ParseUint(r.line(), 16, 64); err != nil || got&mask[set] != 0 {
				t.Errorf("%s: the program has %s signals %x, %v", name, set, got, err)
			}
		}
	}
}

func TestStatus_ExitOrSignal(t *testing.T) {
	for _, tt := range []struct {
		name, script string
		want         unix.WaitStatus
	}{
		{"zero", "exit 0", 0},
		{"status", "exit 137", 137 << 8},
		{"signal", "kill -TERM $$; sleep 100", unix.WaitStatus(syscall.SIGTERM)},
		{"killed", "kill -KILL $$; sleep 100", unix.WaitStatus(syscall.SIGKILL)},
	} {
		for name, edit := range map[string]edit{"": nil, " in a PID namespace": ownPIDs} {
			t.Run(tt.name+name, func(t *testing.T) {
				if got := begin(t, tt.script, edit).ready().wait(); got != tt.want {
					t.Errorf("wait status = %#x, want %#x", got, tt.want)
				}
			})
		}
	}
}

// TestPIDNamespace checks PIDs inside and outside of the namespace, and the reaping of orphans.
func TestPIDNamespace(t *testing.T) {
	r := begin(t, `echo $$; (sleep 0.01 & ) ; read x; exit 3`, ownPIDs).ready()
	if got := r.line(); got != "2" {
		t.Errorf("the program has number %s inside, want 2", got)
	}
	main := r.Main()
	if got := field(t, main, "NSpid"); got != fmt.Sprintf("%d\t2", main) {
		t.Errorf("NSpid of %d = %q", main, got)
	}
	if got := field(t, main, "PPid"); got != strconv.Itoa(r.PID) {
		t.Errorf("parent of the program = %s, want init %d", got, r.PID)
	}
	if sid, err := unix.Getsid(main); err != nil || sid != main {
		t.Errorf("session of %d = %d, %v: want its own", main, sid, err)
	}
	testpace.Until(t, "the orphan is reaped", func() bool { return len(children(t, r.PID)) == 1 })
	r.in.Close()
	if ws := r.wait(); ws != 3<<8 {
		t.Errorf("wait status = %#x, want exit 3", ws)
	}
}

// TestInit checks the name, capabilities, descriptors and memory of init.
func TestInit(t *testing.T) {
	r := begin(t, "read x", ownPIDs).ready()
	testpace.Until(t, "init has its name", func() bool { return field(t, r.PID, "Name") == "nomad-init" })
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		testpace.Until(t, set+" of init is empty", func() bool { return strings.Trim(field(t, r.PID, set), "0") == "" })
	}
	testpace.Until(t, "init holds output and status only", func() bool { return descriptors(t, r.PID) == "1 2 5" })
	rollup, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", r.PID))
	if err != nil {
		t.Fatal(err)
	}
	var pss int
	for line := range strings.Lines(string(rollup)) {
		fmt.Sscanf(line, "Pss: %d kB", &pss) //nolint:errcheck // other lines
	}
	t.Logf("init has a PSS of %d KiB", pss)
	if pss > 100 {
		t.Errorf("init has a PSS of %d KiB, want at most 100", pss)
	}
}

// TestInitIsDeaf checks that only the program receives signals to the group, and that it cannot end
// its init.
func TestInitIsDeaf(t *testing.T) {
	r := begin(t, `trap 'echo got' TERM; kill -KILL 1; kill -TERM 1; echo up; while read x || true; do echo $x; done`, ownPIDs).ready()
	if got := r.line(); got != "up" {
		t.Fatalf("line = %q", got)
	}
	for _, pid := range []int{r.PID, -r.Main()} {
		if err := unix.Kill(pid, unix.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	if got := r.line(); got != "got" {
		t.Errorf("line = %q, want the program to receive the signal", got)
	}
	if err := unix.Kill(-r.Main(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if ws := r.wait(); !ws.Signaled() || ws.Signal() != syscall.SIGKILL {
		t.Errorf("wait status = %#x, want SIGKILL", ws)
	}
}

// descriptors lists the open descriptors of a process.
func descriptors(t *testing.T, pid int) string {
	t.Helper()
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, fd := range fds {
		names = append(names, fd.Name())
	}
	return strings.Join(names, " ")
}

func TestEnter(t *testing.T) {
	task := begin(t, "echo up; read x", ownPIDs).ready()
	task.line()
	fd, err := unix.PidfdOpen(task.Main(), 0)
	if err != nil {
		t.Fatal(err)
	}
	pidfd := os.NewFile(uintptr(fd), "task")
	defer pidfd.Close()
	r := begin(t, "readlink /proc/self/ns/pid; kill -0 2 && echo neighbor; read x; exit 9", func(s *launch.Start, _ *sandbox.Policy) {
		s.Enter = pidfd
	}).ready()
	want, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", task.Main()))
	if err != nil {
		t.Fatal(err)
	}
	if got := r.line(); got != want {
		t.Errorf("namespace = %s, want the task's %s", got, want)
	}
	if got := r.line(); got != "neighbor" {
		t.Errorf("line = %q", got)
	}
	testpace.Until(t, "init holds the status only", func() bool { return descriptors(t, r.PID) == "5" })
	r.in.Close()
	if ws := r.wait(); ws != 9<<8 {
		t.Errorf("wait status = %#x, want exit 9", ws)
	}
}

func TestEnterOfAnEndedProcess(t *testing.T) {
	r := begin(t, "true", func(s *launch.Start, _ *sandbox.Policy) {
		null, err := os.Open("/dev/null")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { null.Close() })
		s.Enter = null
	})
	if reason, err := r.Ready(); err != nil || !strings.Contains(reason, "enter the namespaces") {
		t.Errorf("Ready() = %q, %v, want the step that failed", reason, err)
	}
}

// TestForkError checks that the error names the requested features.
func TestForkError(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: namespaces")
	}
	null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	s := launch.Start{Program: companion.Path(), Entry: sandbox.Entry, Stdio: [3]*os.File{null, null, null}, Init: true,
		GroupDir: t.TempDir()}
	if _, err := s.Fork(); err == nil || !strings.Contains(err.Error(), "PID namespace") || !strings.Contains(err.Error(), s.GroupDir) {
		t.Errorf("Fork() into a directory that is not a group = %v, want an error that names the layers", err)
	}
}

func TestTerminal(t *testing.T) {
	for name, edit := range map[string]func(*launch.Start, *sandbox.Policy){"plain": nil, "PID namespace": ownPIDs} {
		t.Run(name, func(t *testing.T) {
			master, tty := openTerminal(t)
			r := begin(t, "exec 3</dev/tty && tty <&3", func(s *launch.Start, p *sandbox.Policy) {
				if edit != nil {
					edit(s, p)
				}
				s.Terminal, s.Stdio = true, [3]*os.File{tty, tty, tty}
			}).ready()
			buf := make([]byte, 100)
			n, err := master.Read(buf)
			if err != nil {
				t.Fatal(err)
			}
			if got := string(bytes.TrimSpace(buf[:n])); got != "/dev/tty" && got != tty.Name() {
				t.Errorf("terminal = %q, want %s", got, tty.Name())
			}
			if ws := r.wait(); ws != 0 {
				t.Errorf("wait status = %#x", ws)
			}
		})
	}
}

func openTerminal(t *testing.T) (master, tty *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	n, err := unix.IoctlGetUint32(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	if tty, err = os.OpenFile(filepath.Join("/dev/pts", strconv.Itoa(int(n))), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tty.Close() })
	return master, tty
}

// field reads a line of /proc/<pid>/status.
func field(t *testing.T, pid int, name string) string {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if v, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(v)
		}
	}
	t.Fatalf("status of %d has no %s", pid, name)
	return ""
}

func children(t *testing.T, pid int) []string {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(raw))
}

// TestDescriptorNumbers forks with many different descriptor numbers: no inherited descriptor may
// replace the executed program in the child.
func TestDescriptorNumbers(t *testing.T) {
	var files []*os.File
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	for len(files) < 120 {
		r := begin(t, "exit 5", ownPIDs).ready()
		if ws := r.wait(); ws != 5<<8 {
			t.Fatalf("wait status with %d descriptors more = %#x, want exit 5", len(files), ws)
		}
		f, err := os.Open("/dev/null")
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
}

// TestHeld checks that a held stage runs the program after Go, and ends when its starter ends.
func TestHeld(t *testing.T) {
	kinds := map[string]edit{
		"alone":      func(*launch.Start, *sandbox.Policy) {},
		"below init": ownPIDs,
	}
	for name, kind := range kinds {
		suspended := func(t *testing.T, script string) *run {
			return begin(t, script, func(s *launch.Start, p *sandbox.Policy) {
				kind(s, p)
				s.Suspended = true
			})
		}
		t.Run(name, func(t *testing.T) {
			r := suspended(t, "exit 7")
			if err := r.Go(); err != nil {
				t.Fatal(err)
			}
			if ws := r.ready().wait(); ws != 7<<8 {
				t.Errorf("wait status = %#x, want exit 7", ws)
			}
		})
		t.Run(name+", starter ends", func(t *testing.T) {
			mark := filepath.Join(t.TempDir(), "ran")
			r := suspended(t, "> "+mark)
			r.Process.Close() // as when the starter ends
			if ws := r.wait(); ws == 0 {
				t.Error("the stage ended as if the program had run")
			}
			if _, err := os.Stat(mark); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the program ran without its starter: %v", err)
			}
		})
	}
}

// TestHeldFails checks that a failure before the stage waits is reported as without Held.
func TestHeldFails(t *testing.T) {
	r := begin(t, "exit 7", func(s *launch.Start, p *sandbox.Policy) {
		s.Suspended, p.Dir = true, "/no/such/directory"
	})
	if err := r.Go(); err != nil {
		t.Fatal(err)
	}
	if reason, err := r.Ready(); err != nil || !strings.Contains(reason, "/no/such/directory") {
		t.Errorf("Ready() = %q, %v", reason, err)
	}
}
