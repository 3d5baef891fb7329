package landlock_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/landlock"
	"github.com/open-nomad/open-nomad/internal/testkernel"
)

// Restrictions are permanent, so each trial is a process of its own: this binary, with a trial as
// arguments.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "trial" {
		os.Exit(trial(os.Args[2], os.Args[3:]))
	}
	os.Exit(m.Run())
}

// trial restricts itself to the grants in arguments of the form modes:path, and then prints the
// result of each requested attempt.
func trial(tcp string, args []string) int {
	runtime.LockOSThread()
	var rs landlock.Ruleset
	rs.MinABI = landlock.ABIFiles
	if tcp != "" {
		port, _ := strconv.Atoi(tcp)
		rs.TCP = &landlock.Ports{Connect: []uint16{uint16(port)}}
	}
	for _, a := range args {
		if a == "log" {
			rs.Log = true
		}
		modes, path, ok := strings.Cut(a, ":")
		modes, device := strings.CutPrefix(modes, "device-")
		if ok && landlock.ValidModes(modes) {
			fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
			if err != nil {
				fmt.Println(err)
				return 1
			}
			rs.Paths = append(rs.Paths, landlock.Path{Modes: modes, FD: fd, Name: path, Device: device})
		}
	}
	if err := rs.Restrict(); err != nil {
		fmt.Println(err)
		return 1
	}
	for _, a := range args {
		if what, arg, ok := strings.Cut(a, "="); ok {
			fmt.Println(attempt(what, arg))
		}
	}
	return 0
}

func attempt(what, arg string) string {
	var err error
	switch what {
	case "read":
		_, err = os.ReadFile(arg)
	case "write":
		err = os.WriteFile(arg, []byte("x"), 0o644)
	case "truncate":
		err = os.Truncate(arg, 0)
	case "list":
		_, err = os.ReadDir(arg)
	case "mkdir":
		err = os.Mkdir(arg, 0o755)
	case "link":
		err = os.Symlink("f", arg)
	case "remove":
		err = os.Remove(arg)
	case "move": // into the parent directory
		err = os.Rename(arg, filepath.Join(filepath.Dir(filepath.Dir(arg)), "moved"))
	case "exec":
		var pid int
		if pid, err = syscall.ForkExec(arg, []string{arg, "trial", ""}, &syscall.ProcAttr{}); err == nil {
			_, err = syscall.Wait4(pid, nil, 0, nil)
		}
	case "dial":
		var c net.Conn
		if c, err = net.Dial("tcp", arg); err == nil {
			c.Close()
		}
	case "abstract":
		var c net.Conn
		if c, err = net.Dial("unix", "@"+arg); err == nil {
			c.Close()
		}
	case "signal":
		pid, _ := strconv.Atoi(arg)
		err = unix.Kill(pid, 0)
	case "ioctl":
		f, oerr := os.Open(arg)
		if err = oerr; err == nil {
			_, err = unix.IoctlGetInt(int(f.Fd()), unix.RNDGETENTCNT)
		}
	}
	switch {
	case err == nil:
		return what + " allowed"
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return what + " denied"
	}
	return what + " " + err.Error()
}

// run starts a trial and returns its output.
func run(t *testing.T, tcp string, args ...string) []string {
	t.Helper()
	lines, err := runOn(t, testkernel.Kernel{}, tcp, args...)
	if err != nil {
		t.Fatalf("trial: %v: %s", err, lines)
	}
	return lines
}

// runOn does the same on a simulated kernel, on which restricting may fail.
func runOn(t *testing.T, k testkernel.Kernel, tcp string, args ...string) ([]string, error) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(t.Context(), exe, append([]string{"trial", tcp}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := k.Start(cmd); err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	var lines []string
	for s := bufio.NewScanner(&out); s.Scan(); {
		lines = append(lines, s.Text())
	}
	return lines, err
}

func need(t *testing.T, abi int) {
	t.Helper()
	if have, err := landlock.ABI(); err != nil || have < abi {
		t.Skipf("needs Landlock ABI %d: have %d, %v", abi, have, err)
	}
}

func check(t *testing.T, got []string, want ...string) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestFiles(t *testing.T) {
	need(t, landlock.ABITruncate)
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	for _, d := range []string{in, out} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(d, "f"), []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	check(t, run(t, "", "r:"+in, "read="+in+"/f", "read="+out+"/f", "truncate="+in+"/f", "write="+in+"/new"),
		"read allowed", "read denied", "truncate denied", "write denied")
	check(t, run(t, "", "wc:"+in, "write="+in+"/new", "read="+in+"/f", "truncate="+in+"/f"),
		"write allowed", "read denied", "truncate allowed")
	check(t, run(t, "", "r:"+in+"/f", "read="+in+"/f", "read="+in+"/new"), "read allowed", "read denied")
	if got := run(t, "", "rwxc:"+in, "move="+in+"/f"); strings.Contains(fmt.Sprint(got), "allowed") {
		t.Errorf("a file was moved out of the granted directory: %q", got)
	}
}

// TestModes checks each mode alone: the rights that it grants, and no others.
func TestModes(t *testing.T) {
	need(t, landlock.ABIRefer)
	tests := []struct {
		modes string
		want  map[string]bool
	}{
		{"r", map[string]bool{"read": true, "list": true}},
		{"w", map[string]bool{"write": true}},
		{"c", map[string]bool{"mkdir": true, "link": true, "remove": true, "move": true}},
		{"rx", map[string]bool{"read": true, "list": true, "exec": true}},
		{"rwxc", map[string]bool{"read": true, "list": true, "exec": true, "write": true, "mkdir": true, "link": true, "remove": true,
			"move": true}},
	}
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		t.Run(tt.modes, func(t *testing.T) { tryModes(t, program, tt.modes, tt.want) })
		// With logging, the second layer repeats the rules, which must be the same.
		t.Run(tt.modes+" told", func(t *testing.T) {
			need(t, landlock.ABIAudit)
			tryModes(t, program, tt.modes, tt.want, "log")
		})
	}
}

// tryModes makes every attempt below a directory that is granted with modes.
func tryModes(t *testing.T, program []byte, modes string, allowed map[string]bool, args ...string) {
	t.Helper()
	dir := t.TempDir()
	sub := filepath.Join(dir, "sub")
	if err := os.Mkdir(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"f": nil, "old": nil, "moving": nil, "program": program} {
		if err := os.WriteFile(filepath.Join(sub, name), content, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	attempts := []string{"read=" + sub + "/f", "list=" + sub, "write=" + sub + "/f", "mkdir=" + sub + "/d",
		"link=" + sub + "/l", "remove=" + sub + "/old", "move=" + sub + "/moving", "exec=" + sub + "/program"}
	var want []string
	for _, a := range attempts {
		what, _, _ := strings.Cut(a, "=")
		want = append(want, what+map[bool]string{true: " allowed", false: " denied"}[allowed[what]])
	}
	paths := []string{modes + ":" + dir}
	for _, lib := range []string{"/lib64", "/usr/lib"} { // of a dynamically linked program
		if _, err := os.Stat(lib); err == nil {
			paths = append(paths, "rx:"+lib)
		}
	}
	check(t, run(t, "", slices.Concat(args, paths, attempts)...), want...)
}

func TestScopes(t *testing.T) {
	need(t, landlock.ABIScopes)
	name := "open-nomad-landlock-" + strconv.Itoa(os.Getpid())
	l, err := net.Listen("unix", "@"+name)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	check(t, run(t, "", "r:/tmp", "abstract="+name, "signal="+strconv.Itoa(os.Getpid())), "abstract denied", "signal denied")
}

func TestPorts(t *testing.T) {
	need(t, landlock.ABITCP)
	var addrs []string
	for range 2 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		addrs = append(addrs, l.Addr().String())
	}
	_, port, _ := net.SplitHostPort(addrs[0])
	check(t, run(t, port, "r:/tmp", "dial="+addrs[0], "dial="+addrs[1]), "dial allowed", "dial denied")
	check(t, run(t, "", "r:/tmp", "dial="+addrs[1]), "dial allowed")
}

func TestDeviceIoctl(t *testing.T) {
	need(t, landlock.ABIIoctl)
	check(t, run(t, "", "r:/dev/urandom", "read=/dev/null", "ioctl=/dev/urandom"), "read denied", "ioctl denied")
	check(t, run(t, "", "device-r:/dev/urandom", "read=/dev/null", "ioctl=/dev/urandom", "ioctl=/dev/null"), "read denied", "ioctl allowed",
		"ioctl denied")
}

func TestOldKernel(t *testing.T) {
	need(t, landlock.ABIFiles)
	err := landlock.Ruleset{MinABI: 99}.Restrict()
	if err == nil || !strings.Contains(err.Error(), "below the required 99") {
		t.Errorf("Restrict() = %v, want an error: the kernel is too old", err)
	}
	if _, err := os.ReadFile("/proc/self/status"); err != nil {
		t.Errorf("a refused ruleset restricted this process: %v", err)
	}
}
