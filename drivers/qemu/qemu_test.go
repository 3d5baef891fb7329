package qemu_test

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/drivers/process"
	"github.com/open-nomad/open-nomad/drivers/qemu"
	"github.com/open-nomad/open-nomad/drivers/testtask"
	"github.com/open-nomad/open-nomad/internal/companion"
	"github.com/open-nomad/open-nomad/internal/supervise"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

func TestMain(m *testing.M) {
	companion.Main()
	os.Exit(m.Run())
}

// writeImage writes the disk of the guest.
func writeImage(t testing.TB, file string) {
	t.Helper()
	if err := os.WriteFile(file, testtask.GuestDisk(), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o666); err != nil {
		t.Fatal(err)
	}
}

// fixture is a driver with its own supervisor, both ended with the test.
type fixture struct {
	*qemu.Driver
	t     *testing.T
	super *supervise.Client
	dir   string
	n     int
}

func newFixture(t *testing.T, settings map[string]any) *fixture {
	t.Helper()
	needsRoot(t)
	dir := testtask.OpenDir(t)
	super := testtask.Supervisor(t, dir)
	f := &fixture{Driver: qemu.New(qemu.Name, super), t: t, super: super, dir: dir}
	block, err := drivers.Decode(settings, f.ConfigSpec())
	if err == nil {
		err = f.SetConfig(block)
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func needsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 || process.OwnNamespaces() != nil {
		t.Skip("needs root: a user for the emulator, and namespaces")
	}
}

func needsEmulator(t *testing.T) {
	t.Helper()
	testpace.Slow(t, "runs a virtual machine")
	if _, err := exec.LookPath("qemu-system-x86_64"); err != nil {
		t.Skip("needs qemu-system-x86_64: apt-get install qemu-system-x86")
	}
}

// task returns a task whose image is local/disk.
func (f *fixture) task(options map[string]any) *drivers.TaskConfig {
	f.t.Helper()
	f.n++
	cfg := testtask.Config(f.t, f.dir, f.n)
	cfg.User = fmt.Sprintf("nomad-%d", 88000+f.n)
	cfg.Limits = drivers.LinuxResources{MemoryBytes: 128 << 20, CPUShares: 1000, MHzPerCore: 2000}
	prepare(f.t, cfg, options)
	return cfg
}

// prepare makes a config that of a guest whose image is local/disk.
func prepare(t testing.TB, cfg *drivers.TaskConfig, options map[string]any) {
	t.Helper()
	all := map[string]any{"image_path": "local/disk"}
	maps.Copy(all, options)
	v, err := drivers.Decode(all, qemu.Kind().TaskSpec)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Config = v
	writeImage(t, filepath.Join(cfg.LocalDir, "disk"))
}

// start starts a guest, and waits for its output.
func (f *fixture) start(cfg *drivers.TaskConfig) *drivers.TaskHandle {
	f.t.Helper()
	h, err := f.StartTask(f.t.Context(), cfg)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { f.DestroyTask(cfg.ID, true) }) //nolint:errcheck // most have ended
	testpace.Until(f.t, "the output of the guest", func() bool { return strings.Contains(f.log(cfg), testtask.GuestGreeting) })
	return h
}

func (f *fixture) log(cfg *drivers.TaskConfig) string {
	var out strings.Builder
	for _, stream := range []string{"stdout", "stderr"} {
		text, _ := os.ReadFile(filepath.Join(cfg.LogDir, cfg.Name+"."+stream+".0"))
		out.Write(text)
	}
	return out.String()
}

// TestBoot boots a guest and stops it by its power button. Its emulator is confined.
func TestBoot(t *testing.T) {
	needsEmulator(t)
	f := newFixture(t, nil)
	cfg := f.task(map[string]any{"graceful_shutdown": true, "guest_agent": true})
	f.start(cfg)
	s, err := f.InspectTask(cfg.ID)
	if err != nil {
		t.Fatal(err)
	}
	status, err := os.ReadFile("/proc/" + s.Attributes["pid"] + "/status")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Uid:\t88001\t88001\t88001\t88001", "CapEff:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"} {
		if !strings.Contains(string(status), want) {
			t.Errorf("the status of the emulator has no %q", want)
		}
	}
	if _, err := os.Lstat(filepath.Join(process.TmpDir(cfg), "qa.sock")); err != nil {
		t.Errorf("socket of the guest agent: %v", err)
	}
	if err := f.SignalTask(cfg.ID, "SIGHUP"); err == nil || err.Error() != "QEMU driver can't signal commands" {
		t.Errorf("SignalTask() = %v", err)
	}
	if _, err := f.ExecTask(t.Context(), cfg.ID, nil); err == nil || err.Error() != "QEMU driver can't execute commands" {
		t.Errorf("ExecTask() = %v", err)
	}
	if err := f.StopTask(t.Context(), cfg.ID, time.Minute, ""); err != nil {
		t.Fatal(err)
	}
	if exit, err := f.WaitTask(t.Context(), cfg.ID); err != nil || !exit.Successful() {
		t.Errorf("WaitTask() = %+v, %v, want the success of a guest that has powered off", exit, err)
	}
}

// TestStop stops a guest without its help: SIGINT ends the emulator.
func TestStop(t *testing.T) {
	needsEmulator(t)
	f := newFixture(t, nil)
	cfg := f.task(nil)
	f.start(cfg)
	begun := time.Now()
	if err := f.StopTask(t.Context(), cfg.ID, time.Minute, ""); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took > 30*time.Second {
		t.Errorf("the stop took %v, want less than the timeout", took)
	}
}

// TestMonitorReplaced checks that the agent follows no link that an emulator has put in place of its socket.
func TestMonitorReplaced(t *testing.T) {
	needsEmulator(t)
	f := newFixture(t, nil)
	cfg := f.task(map[string]any{"graceful_shutdown": true})
	f.start(cfg)
	victim := filepath.Join(f.dir, "victim")
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: victim})
	}
	if err == nil {
		err = unix.Listen(fd, 1)
	}
	socket := filepath.Join(process.TmpDir(cfg), "qm.sock")
	if err == nil {
		err = os.Remove(socket)
	}
	if err == nil {
		err = os.Symlink(victim, socket)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := f.StopTask(t.Context(), cfg.ID, 10*time.Second, ""); err != nil {
		t.Fatal(err)
	}
	if conn, _, err := unix.Accept(fd); err != unix.EAGAIN {
		unix.Close(conn)
		t.Errorf("accept = %v, want no connection to the target of the link", err)
	}
}

// TestConfined tries to give the guest files of the node.
func TestConfined(t *testing.T) {
	needsEmulator(t)
	f := newFixture(t, nil)
	secret := filepath.Join("/var/tmp", "qemu-secret-"+t.Name())
	writeImage(t, secret)
	t.Cleanup(func() { os.Remove(secret) })
	for name, args := range map[string][]any{
		"drive":   {"-drive", "file=" + secret + ",if=virtio,format=raw"},
		"kernel":  {"-kernel", secret},
		"chardev": {"-serial", "file:/var/tmp/qemu-made"},
		"shadow":  {"-fw_cfg", "name=opt/x,file=/etc/passwd"},
		"host fs": {"-virtfs", "local,path=/etc,mount_tag=x,security_model=none"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := f.task(map[string]any{"args": args})
			if _, err := f.StartTask(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
			defer f.DestroyTask(cfg.ID, true) //nolint:errcheck // it has ended
			exit, err := f.WaitTask(t.Context(), cfg.ID)
			if err != nil || exit.ExitCode == 0 || strings.Contains(f.log(cfg), "hello") {
				t.Errorf("WaitTask() = %+v, %v, want a failed start; output: %s", exit, err, f.log(cfg))
			}
		})
	}
}

// TestChecks checks the errors and their order: each task also has all faults that come later.
func TestChecks(t *testing.T) {
	f := newFixture(t, map[string]any{"image_paths": []any{"/srv/images"}, "args_allowlist": []any{"-nodefaults"},
		"emulators_allowlist": []any{"x86_64", "nowhere"}})
	const smuggled = "machine_type and accelerator have further options of -machine, which is not in args_allowlist"
	faulty := map[string]any{"emulator": "sparc", "args": []any{" -snapshot"}, "image_path": "../../x", "drive_interface": "usb"}
	for _, tt := range []struct {
		repair map[string]any
		memory int64
		want   string
	}{
		{nil, 1, "'sparc' is not an allowed emulator"},
		{map[string]any{"emulator": "nowhere"}, 1, `"-snapshot" is not in args_allowlist`},
		{map[string]any{"args": []any{"-nodefaults", "x"}, "machine_type": "pc,kernel=/boot/vmlinuz"}, 1, smuggled},
		{map[string]any{"machine_type": "pc", "accelerator": "tcg,dumpdtb=local/x"}, 1, smuggled},
		{map[string]any{"accelerator": "tcg"}, 1, "image_path is not in the allowed paths"},
		{map[string]any{"image_path": "/srv/images/../x"}, 1, "image_path is not in the allowed paths"},
		{map[string]any{"image_path": "/srv/images/x"}, 127, "QEMU memory assignment out of bounds"},
		{nil, 128, `failed to resolve path to "qemu-system-nowhere" executable: `},
	} {
		for k, v := range tt.repair {
			faulty[k] = v
		}
		cfg := f.task(faulty)
		cfg.Limits.MemoryBytes = tt.memory << 20
		if _, err := f.StartTask(t.Context(), cfg); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("StartTask() = %v, want %q", err, tt.want)
		}
	}
}

// TestFingerprint checks the attributes of a node with an emulator.
func TestFingerprint(t *testing.T) {
	needsEmulator(t)
	f := newFixture(t, map[string]any{"emulators_allowlist": []any{"x86_64"}})
	ctx, cancel := context.WithCancel(t.Context())
	prints := f.Fingerprint(ctx)
	got := <-prints
	cancel()
	for range prints {
	}
	if got.Health != drivers.HealthHealthy || got.Attributes["driver.qemu"] != "1" || got.Attributes["driver.qemu.emulators"] != "x86_64" ||
		!strings.Contains(got.Attributes["driver.qemu.version"], ".") {
		t.Errorf("fingerprint = %+v", got)
	}
}

// TestEmulatorKilled checks the result of a task whose emulator is killed, and that a new agent reads it.
func TestEmulatorKilled(t *testing.T) {
	needsEmulator(t)
	f := newFixture(t, nil)
	cfg := f.task(nil)
	h := f.start(cfg)
	s, err := f.InspectTask(cfg.ID)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(s.Attributes["pid"])
	if err == nil {
		err = unix.Kill(pid, unix.SIGKILL)
	}
	if err != nil {
		t.Fatal(err)
	}
	if exit, err := f.WaitTask(t.Context(), cfg.ID); err != nil || exit.Signal != 9 {
		t.Errorf("WaitTask() = %+v, %v, want signal 9", exit, err)
	}
	later := qemu.New(qemu.Name, f.super)
	if err := later.RecoverTask(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	if exit, err := later.WaitTask(t.Context(), cfg.ID); err != nil || exit.Signal != 9 {
		t.Errorf("WaitTask() of a later agent = %+v, %v, want signal 9", exit, err)
	}
}

// TestUser checks that no emulator runs as root.
func TestUser(t *testing.T) {
	needsEmulator(t)
	f := newFixture(t, nil)
	for user, want := range map[string]string{"": "the client assigned none", "root": "does not run as root", "no-such-user": "no-such-user"} {
		cfg := f.task(nil)
		cfg.User = user
		if _, err := f.StartTask(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("StartTask() with user %q = %v, want %q", user, err, want)
		}
	}
}

// TestPorts checks the network of the guest: only the task's own ports can be mapped.
func TestPorts(t *testing.T) {
	needsEmulator(t)
	f := newFixture(t, nil)
	cfg := f.task(map[string]any{"port_map": []any{map[string]any{"http": 80}}})
	cfg.Ports = []drivers.Port{{Label: "other", Value: 20001, Own: true}}
	if _, err := f.StartTask(t.Context(), cfg); err == nil || err.Error() != `Unknown port label "http"` {
		t.Errorf("StartTask() = %v, want an unknown label", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	cfg = f.task(map[string]any{"port_map": []any{map[string]any{"http": 80}}})
	cfg.Ports = []drivers.Port{{Label: "http", Value: port, Own: true}}
	if h := f.start(cfg); h.Network == nil || h.Network.PortMap["http"] != 80 {
		t.Errorf("network = %+v, want the port of the guest", h.Network)
	}
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatalf("the emulator does not listen on the host port: %v", err)
	}
	conn.Close()
}
