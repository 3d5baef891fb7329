package mounts_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	clientcsi "github.com/open-nomad/open-nomad/client/csi"
	"github.com/open-nomad/open-nomad/client/csi/mounts"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// detachment returns the request of the servers to unmount volume "data" of an allocation.
func detachment(alloc string) *message.ClientCSINodeDetachVolumeRequest {
	return &message.ClientCSINodeDetachVolumeRequest{PluginID: "p1", VolumeID: "data", VolumeNamespace: "default", AllocID: alloc}
}

// blockUse is the use of a block device.
func blockUse(alloc string) mounts.Use {
	u := use(alloc, "data")
	u.AttachmentMode = nomad.VolumeAttachBlockDevice
	return u
}

// confinedNode is the case of a container without privilege. It may make nodes of all devices, and open none.
const confinedNode = "a device of a plugin without privilege"

// TestHostilePlugin checks what a plugin must not publish. The agent mounts none of it for a task, and removes it.
func TestHostilePlugin(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.MkdirAll(filepath.Join(secret, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	bind := func(source, at string) error { return unix.Mount(source, at, "", unix.MS_BIND, "") }
	for name, c := range map[string]struct {
		use     func(alloc string) mounts.Use
		publish func(at string) error
		want    string
	}{
		"nothing":  {nil, func(string) error { return nil }, "has published nothing"},
		"a link":   {nil, func(at string) error { return os.Symlink(secret, at) }, "is a symbolic link"},
		"no mount": {nil, func(at string) error { return os.Mkdir(at, 0o700) }, "is not mounted"},
		"a file":   {nil, func(at string) error { return os.WriteFile(at, nil, 0o600) }, "is not a directory"},
		"a device": {nil, func(at string) error { return unix.Mknod(at, unix.S_IFBLK|0o600, int(unix.Mkdev(7, 0))) }, "is not a directory"},
		"a fifo":   {nil, func(at string) error { return unix.Mkfifo(at, 0o600) }, "is not a directory"},
		"a mounted file": {nil, func(at string) error {
			source := at + "-source"
			return errors.Join(os.WriteFile(source, nil, 0o600), os.WriteFile(at, nil, 0o600), bind(source, at), unix.Unlink(source))
		}, "is not a directory"},
		"a link above": {nil, func(at string) error {
			dir := filepath.Dir(at)
			return errors.Join(os.Rename(dir, dir+"-old"), os.Symlink(secret, dir))
		}, "replaced a directory above"},
		"a mount above": {nil, func(at string) error {
			return errors.Join(unix.Mount("tmpfs", filepath.Dir(at), "tmpfs", 0, "size=4k"), os.Mkdir(at, 0o700), bind(secret, at))
		}, "replaced a directory above"},
		"a mount above the allocation": {nil, func(at string) error {
			above := filepath.Dir(filepath.Dir(at))
			return errors.Join(unix.Mount("tmpfs", above, "tmpfs", 0, "size=4k"), os.MkdirAll(at, 0o700), bind(secret, at))
		}, "replaced a directory above"},
		"a directory as block device": {blockUse, func(at string) error {
			return errors.Join(os.Mkdir(at, 0o700), bind(secret, at))
		}, "is not a block device"},
		"a character device as block device": {blockUse, func(at string) error {
			return unix.Mknod(at, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 1)))
		}, "is not a block device"},
		"a file as block device": {blockUse, func(at string) error { return os.WriteFile(at, nil, 0o600) }, "is not mounted"},
		"a link to a device":     {blockUse, func(at string) error { return os.Symlink("/dev/loop0", at) }, "symbolic link"},
		confinedNode: {blockUse, func(at string) error {
			return unix.Mknod(at, unix.S_IFBLK|0o600, int(unix.Mkdev(7, 0)))
		}, "made by a task without privilege"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.plugin.confined = name == confinedNode
			a := w.start()
			w.plugin.publish = func(at string, _ *clientcsi.NodeRequest) error { return c.publish(at) }
			u := use("a1", "data")
			if c.use != nil {
				u = c.use("a1")
			}
			if got, err := a.mount(u); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Mount() = %v, %v, want an error with %q", got, err, c.want)
			}
			if _, ok, _ := a.Mounted(u); ok {
				t.Error("Mounted() = true")
			}
			a.release(t, "a1")
			if _, err := os.Stat(filepath.Join(secret, "sub")); err != nil {
				t.Errorf("a file of the host is gone: %v", err)
			}
			for _, extra := range []string{"-old"} { // what only the plugin knows
				_ = os.RemoveAll(filepath.Join(w.plugin.root, "per-alloc/a1/data"+extra))
			}
			_ = os.Remove(filepath.Join(w.plugin.root, "per-alloc/a1/data")) // a link
			_ = os.Remove(filepath.Join(w.plugin.root, "per-alloc/a1"))
			w.nothingLeft(a)
		})
	}
}

// TestSwapAfterPublish checks that a plugin cannot exchange what a task mounts, and that the volume is released afterwards.
func TestSwapAfterPublish(t *testing.T) {
	for name, swap := range map[string]func(at string) error{
		"a link instead": func(at string) error {
			return errors.Join(unix.Unmount(at, unix.MNT_DETACH), os.Remove(at), os.Symlink("/etc", at))
		},
		"a mount on top": func(at string) error { return unix.Mount("/etc", at, "", unix.MS_BIND, "") },
		"a link above": func(at string) error {
			above := filepath.Dir(filepath.Dir(at))
			return errors.Join(os.Rename(above, above+"-old"), os.Symlink("/etc", above))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a := w.start()
			got := a.mustMount(t, use("a1", "data"))
			if err := os.WriteFile(filepath.Join(got.Path, "mine"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			at := w.plugin.host(w.plugin.requests[0].Target)
			if err := swap(at); err != nil {
				t.Fatal(err)
			}
			if names, err := os.ReadDir(got.Path); err != nil || len(names) != 1 || names[0].Name() != "mine" {
				t.Errorf("the task mounts %v, %v", names, err)
			}
			if now, ok, _ := a.Mounted(use("a1", "data")); ok && now != got {
				t.Errorf("Mounted() = %v", now)
			}
			w.plugin.set(func(p *plugin) { p.published = map[string]string{} })
			a.release(t, "a1")
			a.stop()
			a = w.start() // sweeps
			above := filepath.Dir(filepath.Dir(at))
			_, _ = os.Remove(above), os.RemoveAll(above+"-old")
			w.nothingLeft(a)
			if _, err := os.Stat("/etc/passwd"); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestBlockDevice checks that a task gets a node of the device that was checked. It is another file than the plugin's.
func TestBlockDevice(t *testing.T) {
	device := int(unix.Mkdev(7, 99))
	for name, publish := range map[string]func(at string) error{
		"a node": func(at string) error { return unix.Mknod(at, unix.S_IFBLK|0o600, device) },
		"a mounted node": func(at string) error {
			source := at + "-source"
			err := errors.Join(unix.Mknod(source, unix.S_IFBLK|0o600, device), os.WriteFile(at, nil, 0o600),
				unix.Mount(source, at, "", unix.MS_BIND, ""))
			return errors.Join(err, os.Remove(source))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a := w.start()
			w.plugin.publish = func(at string, _ *clientcsi.NodeRequest) error { return publish(at) }
			got, err := a.mount(blockUse("a1"))
			if err != nil {
				t.Fatal(err)
			}
			var st, theirs unix.Stat_t
			if err := errors.Join(unix.Lstat(got.Path, &st), unix.Lstat(w.plugin.host(w.plugin.requests[0].Target), &theirs)); err != nil {
				t.Fatal(err)
			}
			if st.Mode != unix.S_IFBLK|0o666 || st.Rdev != uint64(device) || !got.Device || st.Ino == theirs.Ino {
				t.Errorf("node %s has mode %o, number %d, inode %d; the plugin's has %d", got.Path, st.Mode, st.Rdev, st.Ino, theirs.Ino)
			}
			if err := unix.Lstat(got.Reads, &st); err != nil || st.Mode != unix.S_IFBLK|0o444 || st.Rdev != uint64(device) {
				t.Errorf("the node for readers has mode %o and number %d: %v", st.Mode, st.Rdev, err)
			}
			a.stop()
			a = w.start()
			if again, ok, err := a.Mounted(blockUse("a1")); again != got || !ok || err != nil {
				t.Errorf("Mounted() after a restart = %v, %t, %v", again, ok, err)
			}
			w.plugin.set(func(p *plugin) { p.published[w.plugin.host(w.plugin.requests[0].Target)] = "ext-data" })
			a.release(t, "a1")
			w.nothingLeft(a)
			a = w.start()
			w.boot = "boot-2"
			if _, err := a.mount(blockUse("a1")); err != nil {
				t.Fatal(err)
			}
			a.stop()
			w.boot = "boot-3"
			a = w.start()
			if _, ok, _ := a.Mounted(blockUse("a1")); ok {
				t.Error("a node of an earlier boot is used: another device may have its number")
			}
			a.release(t, "a1")
			a.stop()
			w.end()
		})
	}
}

// TestSweep checks that mounts and files of nobody are removed, and that those of a plugin stay.
func TestSweep(t *testing.T) {
	w := newWorld(t)
	a := w.start()
	a.mustMount(t, use("a1", "data"))
	a.stop()
	stray := []string{"node/p1/per-alloc/gone/v/rw-x-y", "node/p1/staging/default/v/rw-x-y", "mounted/gone/0123", "monolith/p2/per-alloc/gone/v/rw-x-y",
		"mounted/a1/0123"}
	for _, s := range append(stray, "node/p1/own") {
		at := filepath.Join(w.dir, s)
		if err := errors.Join(os.MkdirAll(at, 0o700), unix.Mount("tmpfs", at, "tmpfs", 0, "size=4k")); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount("tmpfs", filepath.Join(w.dir, "node/p1/per-alloc/gone"), "tmpfs", 0, "size=4k"); err != nil { // covers one
		t.Fatal(err)
	}
	a = w.start()
	a.stop()
	for _, p := range w.points() {
		if strings.Contains(p, "gone") || strings.Contains(p, "0123") {
			t.Errorf("%s is still mounted", p)
		}
	}
	if !strings.Contains(strings.Join(w.points(), " "), "node/p1/own") {
		t.Error("a mount of the plugin was removed")
	}
	if got := w.logged(); strings.Count(got, "unmounted a CSI volume that no allocation uses") != 6 {
		t.Errorf("log = %s", got)
	}
	a = w.start()
	if _, ok, err := a.Mounted(use("a1", "data")); !ok || err != nil {
		t.Errorf("the volume of an allocation: Mounted() = %t, %v", ok, err)
	}
	a.release(t, "a1")
}

// TestClear checks that an agent whose files are removed leaves no mount, also without a plugin.
func TestClear(t *testing.T) {
	w := newWorld(t)
	a := w.start()
	got := a.mustMount(t, use("a1", "data"))
	f, err := os.Create(filepath.Join(got.Path, "open")) // by a process that does not end
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	a.stop()
	w.plugin.set(func(p *plugin) { p.absent = true })
	a.Clear(context.Background())
	if got := w.points(); len(got) > 0 {
		t.Errorf("mounts remain: %q", got)
	}
}

// TestSpacesInNames checks that a volume whose ID has white space other than that of the list of mounts is released, also if
// the plugin has mounted something below it and unmounts nothing.
func TestSpacesInNames(t *testing.T) {
	for _, space := range []string{" ", "\t", "\u00a0", "\u2003", "\v"} {
		w := newWorld(t)
		a := w.start()
		w.plugin.publish = func(at string, _ *clientcsi.NodeRequest) error {
			below := filepath.Join(at, "below")
			return errors.Join(os.Mkdir(at, 0o700), unix.Mount("tmpfs", at, "tmpfs", 0, "size=4k"), os.Mkdir(below, 0o700),
				unix.Mount("tmpfs", below, "tmpfs", 0, "size=4k"))
		}
		a.mustMount(t, use("a1", "my"+space+"disk"))
		a.release(t, "a1")
		w.nothingLeft(a)
	}
}
