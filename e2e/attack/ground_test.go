package attack_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/e2e/attack"
)

// canary is in every secret, and in the agent's environment.
const canary = "canary-7d40c1"

// namedUser is the user of the situations that name one. Every Debian has it. It owns files outside
// and a process.
const namedUser = "games"

// ground is the surroundings of a situation: a directory outside of /tmp, with the probe and the
// targets.
type ground struct {
	t       *testing.T
	dir     string
	probe   string
	targets attack.Targets

	clientBlock string // additions to the agent's client block
	agentUser   string // user of the agent; "" is root
}

func newGround(t *testing.T) *ground {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: users, control groups and namespaces")
	}
	highNumbers(t)
	dir, err := os.MkdirTemp("/var/tmp", "attack-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	g := &ground{t: t, dir: dir, probe: filepath.Join(dir, "granted/probe")}
	chmod(t, dir, 0o711)
	g.mkdir("granted", 0o755)
	g.copyProbe(g.probe, 0o755)
	g.targets = attack.Targets{Dir: filepath.Join(dir, "outside"), Canary: canary,
		Setuid: filepath.Join(dir, "granted/setuid"), DataDir: filepath.Join(dir, "data")}
	g.copyProbe(g.targets.Setuid, 0o755|os.ModeSetuid)
	g.layFiles()
	g.laySockets()
	g.laySession()
	g.layIPC()
	g.targets.Root, g.targets.User = g.victim("root"), g.victim(namedUser)
	g.targets.UserID, _ = lookup(t, namedUser)
	return g
}

// highNumbers raises the machine's process IDs to a range that the probe's own namespace does not
// reach. Otherwise a stranger's ID could also be one of the probe's own.
func highNumbers(t *testing.T) {
	t.Helper()
	number := func(name string) int {
		text, err := os.ReadFile("/proc/sys/kernel/" + name)
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	const ofProbe, ofTest = 6000, 4000 // upper bounds of the IDs that each uses
	for max := number("pid_max"); ; {
		if last := number("ns_last_pid"); last > ofProbe && last < max-ofTest {
			return
		}
		for range 50 {
			syscall.ForkExec("/nonexistent", nil, nil) //nolint:errcheck // only consumes an ID
		}
	}
}

// built returns the probe, built once.
func built(t *testing.T) string {
	t.Helper()
	if at := os.Getenv("ATTACK_PROBE"); at != "" { // for machines without a compiler
		return at
	}
	at := filepath.Join(t.TempDir(), "probe")
	cmd := exec.Command("go", "build", "-o", at, "./probe")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the probe: %v\n%s", err, out)
	}
	return at
}

func (g *ground) copyProbe(to string, mode os.FileMode) {
	g.t.Helper()
	text, err := os.ReadFile(built(g.t))
	if err != nil {
		g.t.Fatal(err)
	}
	if err := os.WriteFile(to, text, 0o755); err != nil {
		g.t.Fatal(err)
	}
	chmod(g.t, to, mode)
}

func (g *ground) mkdir(name string, mode os.FileMode) {
	g.t.Helper()
	at := filepath.Join(g.dir, name)
	if err := os.Mkdir(at, mode); err != nil {
		g.t.Fatal(err)
	}
	chmod(g.t, at, mode)
}

func chmod(t *testing.T, at string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(at, mode); err != nil {
		t.Fatal(err)
	}
}

// lay writes a file with the mode.
func lay(t *testing.T, at string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(at, []byte(canary), mode); err != nil {
		t.Fatal(err)
	}
	chmod(t, at, mode)
	if err := unix.Setxattr(at, "user.x", []byte("x"), 0); err != nil && err != unix.EOPNOTSUPP {
		t.Fatal(err)
	}
}

func (g *ground) layFiles() {
	t, out := g.t, g.targets.Dir
	t.Helper()
	g.mkdir("outside", 0o777)
	g.mkdir("outside/open", 0o777)
	g.mkdir("outside/owned-dir", 0o755)
	for _, name := range []string{"plain", "open/gone", "open/moved", "open/long", "open/hard"} {
		lay(t, filepath.Join(out, name), 0o666)
	}
	lay(t, filepath.Join(out, "owned"), 0o644)
	uid, gid := lookup(t, namedUser)
	for _, name := range []string{"owned", "owned-dir"} {
		if err := os.Chown(filepath.Join(out, name), uid, gid); err != nil {
			t.Fatal(err)
		}
	}
	g.copyProbe(filepath.Join(out, "program"), 0o755)
	if err := os.Symlink("plain", filepath.Join(out, "link")); err != nil {
		t.Fatal(err)
	}
	for at, dir := range map[*string]string{&g.targets.HostTmp: "/tmp", &g.targets.DevShm: "/dev/shm"} {
		f, err := os.CreateTemp(dir, "attack-")
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		chmod(t, f.Name(), 0o666)
		*at = f.Name()
		t.Cleanup(func() {
			os.Remove(f.Name())            //nolint:errcheck // an attack may have removed it
			os.Remove(f.Name() + ".probe") //nolint:errcheck // exists if an attack succeeded
		})
	}
}

func lookup(t *testing.T, name string) (uid, gid int) {
	t.Helper()
	u, err := user.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	uid, err = strconv.Atoi(u.Uid)
	if err != nil {
		t.Fatal(err)
	}
	if gid, err = strconv.Atoi(u.Gid); err != nil {
		t.Fatal(err)
	}
	return uid, gid
}

// laySockets listens on all addresses that the probe connects to.
func (g *ground) laySockets() {
	t, o := g.t, &g.targets
	t.Helper()
	id := filepath.Base(g.dir)
	o.Abstract, o.AbstractDgram = id, id+"-dgram"
	o.Socket, o.SocketDgram = filepath.Join(o.Dir, "socket"), filepath.Join(o.Dir, "socket-dgram")
	if err := os.MkdirAll("/run", 0o755); err != nil { // a guest may not have it
		t.Fatal(err)
	}
	o.RunSocket = filepath.Join("/run", id)
	for _, name := range []string{"@" + o.Abstract, o.Socket, o.RunSocket} {
		l, err := net.Listen("unix", name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
	}
	for _, name := range []string{"@" + o.AbstractDgram, o.SocketDgram} {
		c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
	}
	chmod(t, o.Socket, 0o777)
	chmod(t, o.RunSocket, 0o777)
	chmod(t, o.SocketDgram, 0o777)
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	c, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	o.TCP, o.UDP = l.Addr().(*net.TCPAddr).Port, c.LocalAddr().(*net.UDPAddr).Port
}

// sessions is the directory of users' session sockets.
const sessions = "/run/user"

// laySession listens on the address of a session service of the named user.
func (g *ground) laySession() {
	t := g.t
	t.Helper()
	uid, gid := lookup(t, namedUser)
	dir := filepath.Join(sessions, strconv.Itoa(uid))
	for _, at := range []string{sessions, dir} {
		if err := os.Mkdir(at, 0o755); err == nil {
			t.Cleanup(func() { os.Remove(at) }) //nolint:errcheck // another test may use it
		} else if !errors.Is(err, os.ErrExist) {
			t.Fatal(err)
		}
	}
	if err := os.Chown(dir, uid, gid); err != nil {
		t.Fatal(err)
	}
	chmod(t, dir, 0o700)
	g.targets.SessionSocket = filepath.Join(dir, filepath.Base(g.dir))
	l, err := net.Listen("unix", g.targets.SessionSocket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	chmod(t, g.targets.SessionSocket, 0o777)
}

// layIPC creates IPC objects with a number or name, accessible to all.
func (g *ground) layIPC() {
	t, o := g.t, &g.targets
	t.Helper()
	const private, create, remove = 0, 0o1000, 0
	made := func(get, ctl, a, b uintptr) int {
		id, _, e := unix.Syscall(get, private, a, b)
		if e != 0 {
			t.Fatal(e)
		}
		t.Cleanup(func() {
			if ctl == unix.SYS_SEMCTL {
				unix.Syscall6(ctl, id, 0, remove, 0, 0, 0)
			} else {
				unix.Syscall(ctl, id, remove, 0)
			}
		})
		return int(id)
	}
	o.Shm = made(unix.SYS_SHMGET, unix.SYS_SHMCTL, 4096, create|0o666)
	o.Sem = made(unix.SYS_SEMGET, unix.SYS_SEMCTL, 1, create|0o666)
	o.Msg = made(unix.SYS_MSGGET, unix.SYS_MSGCTL, create|0o666, 0)
	o.Queue = filepath.Base(g.dir)
	name, err := unix.BytePtrFromString(o.Queue)
	if err != nil {
		t.Fatal(err)
	}
	old := unix.Umask(0)
	fd, _, e := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(name)), unix.O_RDWR|unix.O_CREAT, 0o666, 0, 0, 0)
	unix.Umask(old)
	if e != 0 {
		t.Fatal(e)
	}
	unix.Close(int(fd))
	t.Cleanup(func() { unix.Syscall(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(name)), 0, 0) })
}

// victim starts a process of a user with the canary in its environment.
func (g *ground) victim(name string) int {
	t := g.t
	t.Helper()
	uid, gid := lookup(t, name)
	cmd := exec.Command(g.probe, "stay", canary)
	cmd.Env = []string{"SECRET=" + canary}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill() //nolint:errcheck // an attack may have ended it
		cmd.Wait()         //nolint:errcheck // killed
	})
	if n, err := out.Read(make([]byte, 64)); n == 0 {
		t.Fatalf("the victim does not come up: %v", err)
	}
	return cmd.Process.Pid
}

// writeTargets writes the targets to a file for the probe.
func (g *ground) writeTargets() string {
	g.t.Helper()
	text, err := json.MarshalIndent(&g.targets, "", "  ")
	if err != nil {
		g.t.Fatal(err)
	}
	at := filepath.Join(g.dir, "granted/targets.json")
	if err := os.WriteFile(at, text, 0o644); err != nil {
		g.t.Fatal(err)
	}
	return at
}

// results parses the output of the probe.
func results(t *testing.T, text string) map[string]string {
	t.Helper()
	out := map[string]string{}
	text, ok := strings.CutSuffix(text, "\nend\n")
	if !ok {
		t.Fatalf("the probe did not come to its end:\n%s", text)
	}
	for line := range strings.Lines(text + "\n") {
		name, verdict, ok := strings.Cut(strings.TrimSpace(line), "\t")
		if !ok {
			t.Fatalf("the probe printed %q", line)
		}
		if strings.HasPrefix(verdict, "broken") || verdict == "hung" {
			t.Errorf("%s is %s", name, verdict)
		}
		out[name] = verdict
	}
	if want := len(attack.Operations()) + 1; len(out) != want {
		t.Errorf("%d results, want %d", len(out), want)
	}
	return out
}

// unchanged checks that the objects outside are unchanged.
func (g *ground) unchanged() error {
	text, err := os.ReadFile(filepath.Join(g.targets.Dir, "plain"))
	if err != nil {
		return err
	}
	if string(text) != canary {
		return fmt.Errorf("the file outside now holds %q", text)
	}
	return nil
}

// layNeighbour creates the files of a neighbour's and a mate's task.
func (g *ground) layNeighbour(task, mate string) {
	t := g.t
	t.Helper()
	for _, d := range []string{"neighbour", "neighbour/neighbour", "neighbour/neighbour/secrets", "neighbour/neighbour/local",
		"neighbour/alloc", "neighbour/alloc/data", "neighbour/alloc/logs"} {
		g.mkdir(d, 0o777)
	}
	g.targets.NeighbourDir = filepath.Join(g.dir, "neighbour")
	logs := filepath.Join(filepath.Dir(task), "alloc/logs")
	for _, name := range []string{mate + "/secrets/secret", mate + "/local/data", logs + "/probe.stdout.0", logs + "/probe.stderr.0",
		logs + "/mate.stdout.0", logs + "/mate.stderr.0", g.targets.NeighbourDir + "/neighbour/secrets/secret", g.targets.NeighbourDir + "/neighbour/local/data",
		g.targets.NeighbourDir + "/alloc/data/data", g.targets.NeighbourDir + "/alloc/logs/neighbour.stdout.0"} {
		lay(t, name, 0o666)
	}
	for _, name := range []string{task + "/secrets/api.sock", mate + "/secrets/api.sock", g.targets.NeighbourDir + "/neighbour/secrets/api.sock"} {
		l, err := net.Listen("unix", name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
	}
}
