package csi_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/client/csi"
)

// TestDial_Refused checks that only a socket in the directory itself is connected. The other socket stands for that of another
// program, such as the Docker daemon.
func TestDial_Refused(t *testing.T) {
	other := filepath.Join(t.TempDir(), "other.sock")
	accepted := make(chan struct{}, 16)
	listen(t, other, accepted)
	for name, c := range map[string]struct {
		make func(t *testing.T, dir string) error
		name string
		want string
	}{
		"missing":        {func(*testing.T, string) error { return nil }, "csi.sock", "no such file"},
		"link":           {func(_ *testing.T, dir string) error { return os.Symlink(other, filepath.Join(dir, "csi.sock")) }, "csi.sock", "not a socket, but a symbolic link"},
		"file":           {func(_ *testing.T, dir string) error { return os.WriteFile(filepath.Join(dir, "csi.sock"), nil, 0o600) }, "csi.sock", "not a socket, but a regular file"},
		"directory":      {func(_ *testing.T, dir string) error { return os.Mkdir(filepath.Join(dir, "csi.sock"), 0o700) }, "csi.sock", "not a socket, but a directory"},
		"pipe":           {func(_ *testing.T, dir string) error { return unix.Mkfifo(filepath.Join(dir, "csi.sock"), 0o600) }, "csi.sock", "not a socket, but a special file"},
		"path":           {func(*testing.T, string) error { return nil }, "../other.sock", "is not the name of a file"},
		"no name":        {func(*testing.T, string) error { return nil }, "", "is not the name of a file"},
		"nobody listens": {deadSocket, "csi.sock", "connection refused"},
		"linked folder":  {linkedDir(other), "sockets", "is not a socket"},
		"mounted socket": {mountedSocket(other), "csi.sock", "invalid cross-device link"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := c.make(t, dir); err != nil {
				t.Fatal(err)
			}
			p, err := csi.Dial(t.Context(), csi.Socket{Dir: dir, Name: c.name})
			if err == nil {
				p.Close()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Dial() = %v, want %s", err, c.want)
			}
		})
	}
	if len(accepted) > 0 {
		t.Error("the other socket was connected")
	}
}

// TestDial_LinkedDirectory checks that the directory of the socket must not be a link.
func TestDial_LinkedDirectory(t *testing.T) {
	real := t.TempDir()
	listen(t, filepath.Join(real, "csi.sock"), make(chan struct{}, 16))
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	if p, err := csi.Dial(t.Context(), csi.Socket{Dir: link, Name: "csi.sock"}); err == nil {
		p.Close()
		t.Error("Dial() followed the link of a directory")
	}
}

// listen accepts connections on a socket, and counts them.
func listen(t *testing.T, path string, accepted chan<- struct{}) {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- struct{}{}
			c.Close()
		}
	}()
}

// deadSocket makes a socket without a program.
func deadSocket(_ *testing.T, dir string) error {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "csi.sock")})
	if err != nil {
		return err
	}
	l.SetUnlinkOnClose(false)
	return l.Close()
}

func linkedDir(other string) func(*testing.T, string) error {
	return func(_ *testing.T, dir string) error {
		return os.Symlink(filepath.Dir(other), filepath.Join(dir, "sockets"))
	}
}

// mountedSocket mounts another socket on that of the plugin, as a privileged container can do.
func mountedSocket(other string) func(*testing.T, string) error {
	return func(t *testing.T, dir string) error {
		if os.Geteuid() != 0 {
			t.Skip("needs root")
		}
		path := filepath.Join(dir, "csi.sock")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			return err
		}
		t.Cleanup(func() {
			if err := unix.Unmount(path, unix.UMOUNT_NOFOLLOW); err != nil {
				t.Error(err)
			}
		})
		return unix.Mount(other, path, "", unix.MS_BIND, "")
	}
}

// TestReconnect checks that a plugin that was restarted is connected again, and a link that it left there is not.
func TestReconnect(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "csi.sock")
	f := &fake{answer: func(context.Context, string, any) (any, error) { return &spec.NodePublishVolumeResponse{}, nil }}
	server := f.listen(t, path)
	p, err := csi.Dial(t.Context(), csi.Socket{Dir: dir, Name: "csi.sock"})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	publish := func() error { return methods["NodePublishVolume"](t.Context(), p) }
	if err := publish(); err != nil {
		t.Fatal(err)
	}
	server.Stop()
	server = f.listen(t, path)
	deadline := time.Now().Add(30 * time.Second)
	for err := publish(); err != nil; err = publish() {
		if time.Now().After(deadline) {
			t.Fatalf("after a restart of the plugin: %v", err)
		}
	}
	server.Stop()
	other, accepted := filepath.Join(t.TempDir(), "other.sock"), make(chan struct{}, 16)
	listen(t, other, accepted)
	if err := os.Symlink(other, path); err != nil {
		t.Fatal(err)
	}
	if err := publish(); err == nil || len(accepted) > 0 {
		t.Errorf("the plugin led the agent to another socket: %v, %d connections", err, len(accepted))
	}
}
