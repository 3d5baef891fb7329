//go:build amd64 || arm64

package launch_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/companion"
	"github.com/open-nomad/open-nomad/internal/landlock"
	"github.com/open-nomad/open-nomad/internal/launch"
	"github.com/open-nomad/open-nomad/internal/memfd"
	"github.com/open-nomad/open-nomad/internal/sandbox"
	"github.com/open-nomad/open-nomad/internal/testkernel"
)

// executables returns the same program as a file on disk and as a memory file.
func executables(t *testing.T) map[string]*os.File {
	t.Helper()
	name, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("needs a shell")
	}
	disk, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := memfd.ReadProgram("memory", disk)
	if err != nil {
		t.Fatal(err)
	}
	memory := os.NewFile(uintptr(fd), "memory")
	t.Cleanup(func() { disk.Close(); memory.Close() })
	return map[string]*os.File{"disk": disk, "memory": memory}
}

// byDescriptor has the stage execute a file, with Landlock if the kernel has it.
func byDescriptor(f *os.File) edit {
	return func(s *launch.Start, p *sandbox.Policy) {
		s.Executable, p.ByDescriptor = f, true
		p.Argv[0] = "sh" // the name of busybox selects its applet
		if abi, err := landlock.ABI(); err != nil || abi < landlock.ABIRefer {
			return
		}
		p.KeepPrivileges = false
		p.Files = &sandbox.Files{Paths: []sandbox.Path{{Modes: "r", Name: "/proc"}}}
		for _, name := range []string{"/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache"} { // of a dynamic program
			p.Files.Paths = append(p.Files.Paths, sandbox.Path{Modes: "rx", Name: name, Optional: true})
		}
	}
}

// TestExecutable executes files by descriptor, which the program does not inherit. Nothing else may
// be executed. The other program is the test's: with busybox, the shell and ls are one file.
func TestExecutable(t *testing.T) {
	other, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf(`echo "$0"; cd /proc/self/fd; echo *; '%s' -test.list=. 2>&- || echo denied`, other)
	want := []string{"sh", "0 1 2 3", "denied"} // 3 is the directory
	for kind, f := range executables(t) {
		for name, more := range map[string]edit{"stage": func(*launch.Start, *sandbox.Policy) {}, "init": ownPIDs} {
			t.Run(kind+" "+name, func(t *testing.T) {
				r := begin(t, script, func(s *launch.Start, p *sandbox.Policy) {
					byDescriptor(f)(s, p)
					more(s, p)
				}).ready()
				for _, line := range want {
					if got := r.line(); got != line {
						t.Errorf("the program prints %q, want %q", got, line)
					}
				}
			})
		}
	}
}

// TestExecutableOfUsers does the same as an ordinary user, in a user namespace.
func TestExecutableOfUsers(t *testing.T) {
	if os.Geteuid() == 0 {
		testkernel.Kernel{}.Rerun(t, nobodyUID, "")
		return
	}
	for kind, f := range executables(t) {
		p, s := usersPolicy(t, `echo "$0"; cd /proc/self/fd; echo *`)
		byDescriptor(f)(s, p)
		p.KeepCapabilities, p.KeepPrivileges = false, false
		r := forkUsers(t, p, s)
		for _, want := range []string{"sh", "0 1 2 3"} {
			if got := r.line(); got != want {
				t.Errorf("%s: the program prints %q, want %q", kind, got, want)
			}
		}
	}
}

// TestNoExecutable checks the policy without its descriptor, and a file that is not executable.
func TestNoExecutable(t *testing.T) {
	text, err := memfd.New("text", []byte("no program"))
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	for name, f := range map[string]*os.File{"none": nil, "text": text} {
		r := begin(t, "", byDescriptor(f))
		if reason, err := r.Ready(); err != nil || reason == "" {
			t.Errorf("%s: Ready() = %q, %v, want a reason", name, reason, err)
		}
	}
}

// TestLaunch checks a start, and that a failed one leaves no process: a refusal, and an error of
// record.
func TestLaunch(t *testing.T) {
	for _, init := range []bool{false, true} {
		for _, suspended := range []bool{false, true} {
			t.Run(fmt.Sprintf("init=%t held=%t", init, suspended), func(t *testing.T) { testLaunch(t, init, suspended) })
		}
	}
}

func testLaunch(t *testing.T, init, suspended bool) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	start := func(dir string) *launch.Start {
		p := &sandbox.Policy{Argv: []string{"/bin/sh", "-c", "exit 3"}, Dir: dir, Env: sandbox.Environment{"PATH=/usr/bin:/bin"},
			KeepCapabilities: true, KeepPrivileges: true, Seccomp: sandbox.SeccompNone, PrivatePID: init}
		raw, err := sandbox.Encode(p)
		if err != nil {
			t.Fatal(err)
		}
		return &launch.Start{Program: companion.Path(), Entry: sandbox.Entry, Policy: raw, Stdio: [3]*os.File{null, null, null}, Init: init,
			Suspended: suspended, Bound: true}
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root: namespaces")
	}
	p, err := start("/").Launch(nil)
	if err != nil {
		t.Fatalf("Launch() = %v", err)
	}
	defer p.Close()
	defer p.Pidfd.Close()
	if ws, err := p.Wait(); err != nil || ws.ExitStatus() != 3 {
		t.Errorf("Wait() = %v, %v, want exit 3", ws, err)
	}
	p.Kill() // does nothing
	failed := errors.New("cannot record")
	for name, tt := range map[string]struct {
		dir    string
		record error
		want   func(error) bool
	}{
		"refused": {"/no/such/directory", nil, func(err error) bool {
			_, ok := errors.AsType[*launch.RefusedError](err)
			return ok
		}},
		"not recorded": {"/", failed, func(err error) bool { return errors.Is(err, failed) }},
	} {
		pid := 0
		p, err := start(tt.dir).Launch(func(p *launch.Process) error {
			pid = p.PID
			return tt.record
		})
		if p != nil || !tt.want(err) {
			t.Errorf("%s: Launch() = %v, %v", name, p, err)
		}
		if _, err := unix.Wait4(pid, nil, unix.WNOHANG, nil); err != unix.ECHILD {
			t.Errorf("%s: process %d was not reaped: %v", name, pid, err)
		}
	}
}
