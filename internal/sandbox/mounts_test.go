package sandbox_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/companion"
	"github.com/open-nomad/open-nomad/internal/launch"
	"github.com/open-nomad/open-nomad/internal/sandbox"
	"github.com/open-nomad/open-nomad/internal/testnet"
)

// ran is the result of a program.
type ran struct {
	reason string // why it was not executed
	out    string
	code   int
}

// runPolicy executes a shell script under p.
func runPolicy(t *testing.T, p *sandbox.Policy, script string) ran {
	t.Helper()
	return runProgram(t, p, "/bin/sh", "-c", script)
}

// runProgram executes a program under p.
func runProgram(t *testing.T, p *sandbox.Policy, argv ...string) ran {
	t.Helper()
	p.Argv, p.Seccomp = argv, sandbox.SeccompNone
	if p.Env = (sandbox.Environment{"PATH=/usr/bin:/bin"}); p.Dir == "" {
		p.Dir = "/"
	}
	raw, err := sandbox.Encode(p)
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s := launch.Start{Program: companion.Path(), Entry: sandbox.Entry, Policy: raw, Init: p.PrivatePID, Stdio: [3]*os.File{w, w, w}}
	proc, err := s.Fork()
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer proc.Pidfd.Close()
	defer proc.Close()
	reason, err := proc.Ready()
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	ws, err := proc.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return ran{reason, string(out), ws.ExitStatus()}
}

// places are an allocation's directory, owned by root, with the directory of a task of user uid,
// which could write there before.
type places struct {
	alloc, task, tmp string
	user             *sandbox.User
}

func newPlaces(t *testing.T) *places {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: namespaces")
	}
	alloc := t.TempDir()
	for d := alloc; d != os.TempDir(); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p := &places{alloc: alloc, task: filepath.Join(alloc, "web"), tmp: filepath.Join(alloc, "web/tmp"),
		user: &sandbox.User{UID: 88123, GID: 88123}}
	for _, d := range []string{p.task, p.tmp} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(d, 88123, 88123); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func (p *places) policy(m *sandbox.Mounts) *sandbox.Policy {
	return &sandbox.Policy{Dir: p.task, User: p.user, PrivatePID: true, PrivateIPC: true, Mounts: m}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, 0o666); err != nil {
		t.Fatal(err)
	}
}

func mkdir(t *testing.T, name string) string {
	t.Helper()
	if err := os.MkdirAll(name, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, 0o777); err != nil {
		t.Fatal(err)
	}
	return name
}

// mountMemory mounts a small tmpfs until the test ends.
func mountMemory(t *testing.T, at string) {
	t.Helper()
	if err := unix.Mount("test", mkdir(t, at), "tmpfs", 0, "size=64k,mode=777"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// hostMounts lists the mounts below a directory only, since others may mount elsewhere.
func hostMounts(t *testing.T, dir string) string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, " "+dir) {
			out.WriteString(line)
		}
	}
	if out.Len() == 0 {
		t.Fatalf("no mount below %s in:\n%s", dir, text)
	}
	return out.String()
}

// TestBinds checks that a read-only bind includes the mounts below it, that no bind has devices or
// setuid, and that the host does not see the mounts.
func TestBinds(t *testing.T) {
	p := newPlaces(t)
	src := mkdir(t, filepath.Join(p.alloc, "src"))
	mountMemory(t, filepath.Join(src, "below"))
	write(t, filepath.Join(src, "file"), "hello")
	at := mkdir(t, filepath.Join(p.alloc, "at"))
	before := hostMounts(t, p.alloc)
	source := sandbox.Path{Name: "src", Beneath: p.alloc}
	r := runPolicy(t, p.policy(&sandbox.Mounts{Proc: true, Binds: []sandbox.Bind{
		{Source: source, Target: at, ReadOnly: true},
		{Source: source, Target: "web/new/volume", Beneath: p.alloc},
		{Source: sandbox.Path{Name: filepath.Join(src, "file")}, Target: "web/one", Beneath: p.alloc, ReadOnly: true},
	}}), fmt.Sprintf(`
		cat %[1]s/file new/volume/file one; echo
		for f in %[1]s/x %[1]s/below/x one new/volume/y new/volume/below/y; do
			if (: >$f) 2>/dev/null; then echo wrote $f; else echo denied $f; fi
		done
		awk '$5 ~ "^%[2]s/(at|web)" {print $6}' /proc/self/mountinfo`, at, p.alloc))
	want := "hellohellohello"
	if r.reason != "" || !strings.Contains(r.out, want) {
		t.Fatalf("program = %+v, want it to read %q", r, want)
	}
	for _, line := range []string{"denied " + at + "/x", "denied " + at + "/below/x", "denied one", "wrote new/volume/y",
		"wrote new/volume/below/y"} {
		if !strings.Contains(r.out, line+"\n") {
			t.Errorf("no line %q in:\n%s", line, r.out)
		}
	}
	if got := strings.Count(r.out, "nosuid,nodev"); got != 5 {
		t.Errorf("%d mounts have nosuid and nodev, want 5 (two trees of two, one file):\n%s", got, r.out)
	}
	if after := hostMounts(t, p.alloc); after != before {
		t.Errorf("the host's mounts changed from\n%sto\n%s", before, after)
	}
}

// TestBindsRefuse checks that links of a task are not followed, nothing is created at their
// targets, and the error names the bind.
func TestBindsRefuse(t *testing.T) {
	p := newPlaces(t)
	src, outside := mkdir(t, filepath.Join(p.alloc, "src")), mkdir(t, filepath.Join(p.alloc, "outside"))
	write(t, filepath.Join(src, "file"), "x")
	for name, to := range map[string]string{"web/link": outside, "linked": src, "web/dangling": filepath.Join(outside, "made")} {
		if err := os.Symlink(to, filepath.Join(p.alloc, name)); err != nil {
			t.Fatal(err)
		}
	}
	dir := sandbox.Path{Name: src}
	for name, tt := range map[string]struct {
		bind sandbox.Bind
		want string
	}{
		"link on the way":       {sandbox.Bind{Source: dir, Target: "web/link/sub", Beneath: p.alloc}, "web/link/sub"},
		"link at the end":       {sandbox.Bind{Source: dir, Target: "web/link", Beneath: p.alloc}, "symbolic links"},
		"dangling link":         {sandbox.Bind{Source: dir, Target: "web/dangling", Beneath: p.alloc}, "web/dangling"},
		"link at an own path":   {sandbox.Bind{Source: dir, Target: filepath.Join(p.task, "link")}, "is a symbolic link"},
		"missing, outside":      {sandbox.Bind{Source: dir, Target: filepath.Join(outside, "none")}, "no such file"},
		"source through a link": {sandbox.Bind{Source: sandbox.Path{Name: filepath.Join(p.alloc, "linked")}, Target: outside}, "symbolic links"},
		"missing source":        {sandbox.Bind{Source: sandbox.Path{Name: src + "/none"}, Target: outside}, "open the source"},
		"file on a directory":   {sandbox.Bind{Source: sandbox.Path{Name: src + "/file"}, Target: outside}, "directory"},
	} {
		t.Run(name, func(t *testing.T) {
			r := runPolicy(t, p.policy(&sandbox.Mounts{Binds: []sandbox.Bind{tt.bind}}), "echo ran")
			if !strings.Contains(r.reason, tt.want) || !strings.Contains(r.reason, tt.bind.String()) || r.out != "" {
				t.Errorf("program = %+v, want an error with %q and %q", r, tt.want, tt.bind)
			}
		})
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("outside holds %v, %v: want nothing", left, err)
	}
}

// TestPrivateTmp checks that the program's /tmp is its own directory, and that grants below the
// host's /tmp keep their paths.
func TestPrivateTmp(t *testing.T) {
	p := newPlaces(t) // below /tmp
	host := filepath.Join(os.TempDir(), filepath.Base(t.TempDir())+"-canary")
	write(t, host, "canary")
	t.Cleanup(func() { os.Remove(host) })
	granted, file := mkdir(t, filepath.Join(p.alloc, "granted/deep")), filepath.Join(p.alloc, "one")
	write(t, file, "file\n")
	write(t, filepath.Join(p.alloc, "other"), "other")
	policy := p.policy(&sandbox.Mounts{Tmp: sandbox.Path{Name: "web/tmp", Beneath: p.alloc}, Proc: true})
	policy.Files = &sandbox.Files{Paths: []sandbox.Path{
		{Modes: "rwxc", Name: "web", Beneath: p.alloc}, {Modes: "rwc", Name: "web/tmp", Beneath: p.alloc},
		{Modes: "rwc", Name: "granted/deep", Beneath: p.alloc}, {Modes: "r", Name: file},
		{Modes: "rx", Name: "/usr"}, {Modes: "rx", Name: "/bin"}, {Modes: "rx", Name: "/lib"}, {Modes: "rx", Name: "/lib64"},
		{Modes: "rw", Name: "/dev/null"},
	}}
	r := runPolicy(t, policy, fmt.Sprintf(`cat %s; ls %s %s/other 2>/dev/null; pwd; echo a >/tmp/mine; echo b >%s/kept; cat %s/mine`,
		file, host, p.alloc, granted, p.tmp))
	if want := "file\n" + p.task + "\na\n"; r.reason != "" || r.out != want {
		t.Errorf("program = %+v, want %q", r, want)
	}
	for name, want := range map[string]string{filepath.Join(p.tmp, "mine"): "a\n", filepath.Join(granted, "kept"): "b\n"} {
		if got, err := os.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("%s = %q, %v, want %q", name, got, err, want)
		}
	}
	// A link that the task prepares for the next start is not followed.
	first := filepath.Join(p.tmp, strings.Split(strings.TrimPrefix(p.alloc, "/tmp/"), "/")[0])
	if err := os.RemoveAll(first); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(mkdir(t, filepath.Join(p.alloc, "trap")), first); err != nil {
		t.Fatal(err)
	}
	if r := runPolicy(t, policy, "echo ran"); !strings.Contains(r.reason, "mount private /tmp: keep ") || r.out != "" {
		t.Errorf("program = %+v, want a start error", r)
	}
	if left, err := os.ReadDir(filepath.Join(p.alloc, "trap")); err != nil || len(left) > 0 {
		t.Errorf("made through a link: %v, %v", left, err)
	}
}

// TestFreshProc checks that a program sees only its own processes, without init, whatever its
// group. Other programs cannot see its processes by number.
func TestFreshProc(t *testing.T) {
	p := newPlaces(t)
	for name, user := range map[string]*sandbox.User{"own group": p.user, "root's group": {UID: 88123, GID: 0}, "root": {}} {
		t.Run(name, func(t *testing.T) {
			policy := p.policy(&sandbox.Mounts{Proc: true})
			policy.User = user
			r := runPolicy(t, policy,
				`sleep 100 & set -- /proc/[0-9]*; echo $#; stat -f -c %T /proc; [ -e /proc/$$ ] && echo self; [ -e /proc/1 ] && echo init; true`)
			if want := "2\nproc\nself\n"; r.reason != "" || r.out != want { // the shell and sleep
				t.Errorf("program = %+v, want %q", r, want)
			}
		})
	}
}

// TestNoNamespaceIsNotForgotten checks that a stage outside of a PID namespace does not run the
// program.
func TestNoNamespaceIsNotForgotten(t *testing.T) {
	p := newPlaces(t).policy(&sandbox.Mounts{Proc: true})
	p.Argv, p.Seccomp = []string{"/bin/true"}, sandbox.SeccompNone
	raw, err := sandbox.Encode(p)
	if err != nil {
		t.Fatal(err)
	}
	s := launch.Start{Program: companion.Path(), Entry: sandbox.Entry, Policy: raw, Stdio: [3]*os.File{os.Stdin, os.Stdout, os.Stderr}}
	proc, err := s.Fork()
	if err != nil {
		t.Fatal(err)
	}
	defer proc.Pidfd.Close()
	defer proc.Close()
	reason, err := proc.Ready()
	if _, werr := proc.Wait(); err != nil || werr != nil || !strings.Contains(reason, "PID namespace") {
		t.Errorf("Ready() = %q, %v, %v, want an error that names the layer", reason, err, werr)
	}
}

func TestNetwork(t *testing.T) {
	p := newPlaces(t)
	ns := testnet.Namespace(t)
	want, err := os.Readlink(ns)
	if err != nil {
		t.Fatal(err)
	}
	policy := p.policy(&sandbox.Mounts{Proc: true})
	policy.NetNS = ns
	if r := runPolicy(t, policy, "readlink /proc/self/ns/net"); r.reason != "" || strings.TrimSpace(r.out) != want {
		t.Errorf("program = %+v, want namespace %s", r, want)
	}
	file := filepath.Join(p.alloc, "file")
	write(t, file, "")
	for path, want := range map[string]string{file: "not a namespace", "/proc/self/ns/uts": "setns", p.alloc + "/none": "no such file",
		"/proc/self/ns": "not a namespace"} {
		policy := p.policy(nil)
		policy.NetNS = path
		if r := runPolicy(t, policy, "echo ran"); !strings.Contains(r.reason, "join network namespace "+path) ||
			!strings.Contains(r.reason, want) || r.out != "" {
			t.Errorf("program in %s = %+v, want an error with %q", path, r, want)
		}
	}
}

func TestMain(m *testing.M) {
	companion.Main()
	if _, err := exec.LookPath("sh"); err != nil {
		fmt.Fprintln(os.Stderr, "these tests need a shell")
		os.Exit(1)
	}
	os.Exit(m.Run())
}
