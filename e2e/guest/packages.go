package guest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// Machine is an emulator and its kernels, unpacked below one directory.
type Machine struct {
	root    string
	Busybox string
}

// tools are the Debian packages of a Machine, in addition to the kernels. They are downloaded even
// if installed, together with the data files that they expect in the same tree.
var tools = []string{"qemu-system-x86", "qemu-system-common", "qemu-system-data", "seabios", "busybox-static"}

// kernelPackages are the meta packages that depend on a kernel, by the names in the tests.
var kernelPackages = map[string]string{"6.1": "linux-image-cloud-amd64", "6.12": "linux-image-6.12-cloud-amd64"}

// Fetch downloads and unpacks the packages that are missing in dir.
func Fetch(ctx context.Context, dir string) (*Machine, error) {
	m := &Machine{root: filepath.Join(dir, "root")}
	m.Busybox = filepath.Join(m.root, "bin/busybox")
	if _, err := os.Stat(filepath.Join(dir, "complete")); err == nil {
		return m, nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return nil, fmt.Errorf("the guest's packages come with apt-get: %w", err)
	}
	debs := filepath.Join(dir, "debs")
	if err := os.MkdirAll(filepath.Join(debs, "partial"), 0o755); err != nil {
		return nil, err
	}
	args := append([]string{"install", "-qq", "-y", "--download-only", "--reinstall", "--no-install-recommends", "-o",
		"Dir::Cache::archives=" + debs}, tools...)
	if err := run(ctx, debs, "apt-get", args...); err != nil {
		return nil, err
	}
	for _, meta := range kernelPackages {
		image, err := dependency(ctx, meta)
		if err != nil {
			return nil, err
		}
		if err := run(ctx, debs, "apt-get", "download", "-qq", image); err != nil {
			return nil, err
		}
	}
	if err := m.unpack(ctx, debs); err != nil {
		return nil, err
	}
	return m, os.WriteFile(filepath.Join(dir, "complete"), nil, 0o644)
}

func run(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

var depends = regexp.MustCompile(`(?m)^ *Depends: (linux-image-\S+)$`)

// dependency returns the current kernel of a meta package.
func dependency(ctx context.Context, meta string) (string, error) {
	out, err := exec.CommandContext(ctx, "apt-cache", "depends", meta).Output()
	if err != nil {
		return "", fmt.Errorf("find the kernel of %s: %w", meta, err)
	}
	found := depends.FindSubmatch(out)
	if found == nil {
		return "", fmt.Errorf("package %s is of no kernel", meta)
	}
	return string(found[1]), nil
}

func (m *Machine) unpack(ctx context.Context, debs string) error {
	files, err := filepath.Glob(filepath.Join(debs, "*.deb"))
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := run(ctx, debs, "dpkg-deb", "-x", f, m.root); err != nil {
			return err
		}
	}
	return nil
}

// Kernels returns the files of the bootable kernels by name, such as "6.1".
func (m *Machine) Kernels() (map[string]string, error) {
	out := map[string]string{}
	for name := range kernelPackages {
		files, err := filepath.Glob(filepath.Join(m.root, "boot/vmlinuz-"+name+".*"))
		if err != nil {
			return nil, err
		}
		if len(files) == 0 {
			return nil, errors.New("no kernel " + name + " among the packages")
		}
		out[name] = files[len(files)-1]
	}
	return out, nil
}

// Boot runs a kernel with an initramfs until the guest powers off. console receives the output of
// its serial console. Kernel messages other than panics are suppressed, because they could
// interrupt any line.
func (m *Machine) Boot(ctx context.Context, kernel, initramfs string, console *os.File) error {
	share := filepath.Join(m.root, "usr/share")
	cmd := exec.CommandContext(ctx, filepath.Join(m.root, "usr/bin/qemu-system-x86_64"),
		"-L", filepath.Join(share, "qemu"), "-L", filepath.Join(share, "seabios"),
		"-machine", "q35,accel=tcg", "-cpu", "max", "-smp", "2", "-m", "2048", "-net", "none",
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial", "stdio",
		"-kernel", kernel, "-initrd", initramfs, "-append", "console=ttyS0 loglevel=1 panic=-1 oops=panic")
	lib := filepath.Join(m.root, "usr/lib/x86_64-linux-gnu") + ":" + filepath.Join(m.root, "lib/x86_64-linux-gnu")
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+lib)
	cmd.Stdout, cmd.Stderr = console, console
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("run the emulator: %w", err)
	}
	return nil
}
