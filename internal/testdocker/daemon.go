// Package testdocker runs a Docker daemon for tests, separate from that of the machine. It has its own
// socket, data directory and containerd. Its image is built from the static busybox of the machine. It
// changes no firewall rules, and has no default network unless the test asks for one.
//
//	Start ─▶ running ─▶ Stop ─▶ stopped ─▶ Restart ─▶ running
//	                     end of the test ─▶ containers, mounts and processes are removed
//
// A test is skipped on a machine without the daemon, without busybox, or without root; with NEEDS_DOCKER
// in the environment it fails. With -short it is always skipped. The daemon ends with the test program, even if
// that is killed.
package testdocker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/testpace"
)

// Daemon is a Docker daemon.
type Daemon struct {
	// API is a client of the daemon.
	API    *client.Client
	bridge string // its default network, "none" for none
	dir    string
	cmd    *exec.Cmd
	stop   io.Closer // ends the daemon
}

// program returns the path of a program that is not always in PATH.
func program(t testing.TB, name, pkg string) string {
	t.Helper()
	for _, try := range []string{name, "/usr/sbin/" + name, "/usr/bin/" + name, "/bin/" + name} {
		if path, err := exec.LookPath(try); err == nil {
			return path
		}
	}
	skip(t, "needs "+name+" of Debian's package "+pkg)
	return ""
}

// skip skips a test, unless the environment has NEEDS_DOCKER.
func skip(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("NEEDS_DOCKER") != "" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// Start returns a running daemon with the image and without a default network. It ends with the test.
func Start(t testing.TB) *Daemon {
	t.Helper()
	return start(t, "none")
}

func start(t testing.TB, bridge string) *Daemon {
	t.Helper()
	testpace.Slow(t, "a Docker daemon")
	if os.Geteuid() != 0 {
		skip(t, "needs root: a Docker daemon")
	}
	program(t, "dockerd", "docker.io")
	busybox := program(t, "busybox", "busybox-static")
	dir, err := os.MkdirTemp("", "dk")
	if err != nil {
		t.Fatal(err)
	}
	d := &Daemon{dir: dir, bridge: bridge}
	t.Cleanup(func() { d.close(t) })
	if err := os.WriteFile(filepath.Join(dir, "daemon.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.API, err = client.New(client.WithHost(d.Endpoint()))
	if err != nil {
		t.Fatal(err)
	}
	d.Restart(t)
	d.build(t, busybox)
	return d
}

// Endpoint returns the address of the daemon.
func (d *Daemon) Endpoint() string { return "unix://" + filepath.Join(d.dir, "sock") }

// patience limits the start and the end of the daemon.
const patience = time.Minute

// Restart starts the daemon again after Stop. Its containers run meanwhile.
func (d *Daemon) Restart(t testing.TB) {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(d.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	in := func(name string) string { return filepath.Join(d.dir, name) }
	// The shell ends the daemon when its input ends, which is also when the test program is killed.
	d.cmd = exec.Command("/bin/sh", "-c", `"$@" </dev/null & daemon=$!; cat >/dev/null; kill $daemon; wait $daemon`, "sh",
		program(t, "dockerd", "docker.io"), "--config-file", in("daemon.json"), "--host", d.Endpoint(), "--data-root", in("data"), "--exec-root",
		in("exec"),
		"--pidfile", in("pid"), "--storage-driver", "vfs", "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--bridge="+d.bridge,
		"--live-restore", "--exec-opt", "native.cgroupdriver=cgroupfs")
	if d.bridge != "none" {
		d.cmd.Args = append(d.cmd.Args, "--userland-proxy-path", program(t, "docker-proxy", "docker.io"))
	}
	d.cmd.Stdout, d.cmd.Stderr = log, log
	stdin, err := d.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	d.stop = stdin
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		_, err := d.API.ServerVersion(ctx, client.ServerVersionOptions{})
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			text, _ := os.ReadFile(in("log"))
			t.Fatalf("the Docker daemon does not answer: %v\n%s", err, text)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// Stop ends the daemon. Its containers continue.
func (d *Daemon) Stop(t testing.TB) {
	t.Helper()
	if d.cmd == nil {
		return
	}
	d.stop.Close()
	late := time.AfterFunc(patience, func() { d.cmd.Process.Kill() })
	defer late.Stop()
	var exit *exec.ExitError
	if err := d.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		t.Errorf("end the Docker daemon: %v", err)
	}
	d.cmd = nil
}

// close removes the containers, the networks, the daemon and its files.
func (d *Daemon) close(t testing.TB) {
	t.Helper()
	if d.cmd != nil {
		d.removeContainers(t)
		d.removeNetworks(t)
		d.Stop(t)
	}
	if t.Failed() {
		text, _ := os.ReadFile(filepath.Join(d.dir, "log"))
		t.Logf("log of the Docker daemon:\n%s", text[max(0, len(text)-4000):])
	}
	if d.API != nil {
		d.API.Close()
	}
	if err := d.unmount(); err != nil {
		t.Errorf("unmount the directories of the Docker daemon: %v", err)
	}
	if err := os.RemoveAll(d.dir); err != nil {
		t.Errorf("remove the directories of the Docker daemon: %v", err)
	}
}

func (d *Daemon) removeContainers(t testing.TB) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	list, err := d.API.ContainerList(ctx, client.ContainerListOptions{All: true})
	if err != nil {
		t.Errorf("list the containers: %v", err)
		return
	}
	for _, c := range list.Items {
		if err := d.remove(ctx, c.ID); err != nil {
			t.Errorf("remove container %s: %v", c.ID, err)
		}
	}
}

// removeNetworks removes the networks of tests. The daemon would leave their bridges on the machine, with addresses that
// other tests do not expect.
func (d *Daemon) removeNetworks(t testing.TB) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	list, err := d.API.NetworkList(ctx, client.NetworkListOptions{})
	if err != nil {
		t.Errorf("list the networks: %v", err)
		return
	}
	for _, n := range list.Items {
		if slices.Contains([]string{"bridge", "host", "none"}, n.Name) {
			continue
		}
		if _, err := d.API.NetworkRemove(ctx, n.ID, client.NetworkRemoveOptions{}); err != nil {
			t.Errorf("remove network %s: %v", n.Name, err)
		}
	}
}

// remove removes a container. A driver that has just ended may have asked the daemon for the same: then
// remove asks again until the container is gone.
func (d *Daemon) remove(ctx context.Context, id string) error {
	for {
		_, err := d.API.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true})
		if err == nil || cerrdefs.IsNotFound(err) {
			return nil
		}
		if !cerrdefs.IsConflict(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// unmount removes the mounts that the daemon has left below its directory.
func (d *Daemon) unmount() error {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	var errs []error
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) > 4 && strings.HasPrefix(fields[4], d.dir+"/") {
			if err := unix.Unmount(fields[4], unix.MNT_DETACH); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", fields[4], err))
			}
		}
	}
	return errors.Join(errs...)
}
