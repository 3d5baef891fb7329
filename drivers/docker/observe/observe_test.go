package observe

import (
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// child returns a process that runs until the end of the test.
func child(t *testing.T) *Process {
	t.Helper()
	cmd := exec.Command("/bin/cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	p, err := Open(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// Each expectation that a plain process of the agent does not meet is a difference of its own.
func TestDifferences(t *testing.T) {
	p := child(t)
	id := func(key string) string { return strings.Fields(p.status[key])[0] }
	own := id("Uid") + ":" + id("Gid")
	all := strings.Fields(p.status["Groups"])
	for name, c := range map[string]struct {
		expected Expected
		want     string // "" for none
	}{
		"as it is":       {Expected{User: own, Groups: all, Capabilities: ^uint64(0)}, ""},
		"user":           {Expected{User: "4711:" + id("Gid"), Groups: all, Capabilities: ^uint64(0)}, "Uid is"},
		"group":          {Expected{User: id("Uid") + ":4711", Groups: append(slices.Clone(all), id("Gid")), Capabilities: ^uint64(0)}, "Gid is"},
		"no new privs":   {Expected{NoPrivileges: true, Capabilities: ^uint64(0)}, "NoNewPrivs is"},
		"pid namespace":  {Expected{Namespaces: []string{"pid"}, Capabilities: ^uint64(0)}, "its pid namespace"},
		"mnt namespace":  {Expected{Namespaces: []string{"mnt"}, Capabilities: ^uint64(0)}, "its mnt namespace"},
		"no such kind":   {Expected{Namespaces: []string{"nothing"}, Capabilities: ^uint64(0)}, ErrGone.Error()},
		"all mounts":     {Expected{Mounts: []string{"/"}, Capabilities: ^uint64(0)}, ""},
		"capability set": {Expected{Capabilities: 0}, "CapBnd is"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := p.Differences(&c.expected)
			text := strings.Join(got, "; ")
			if err != nil {
				text = err.Error()
			}
			if (text == "") != (c.want == "") || !strings.Contains(text, c.want) {
				t.Errorf("Differences() = %q, want %q", text, c.want)
			}
		})
	}
}

func TestMounts(t *testing.T) {
	list := parseMounts("1 2 0:1 / / rw - overlay o rw\n1 2 0:1 / /proc/sys ro - proc p rw\n1 2 0:1 / /a\\040b rw,nosuid - ext4 x rw\n1 2 0:1 / /a\\040b/c rw - ext4 x rw\n1 2 0:1 / /ro ro - ext4 x rw\n1 2 0:1 / /rox rw - ext4 x rw\n")
	got := compareMounts(list, &Expected{Mounts: []string{"/a b", "/ro"}, ReadOnly: []string{"/ro", "/a b"}})
	want := []string{`the mount at "/a b" is writable, read-only was asked for`, `it has a mount at "/rox", which was not asked for`}
	if !slices.Equal(got, want) {
		t.Errorf("compareMounts() = %q, want %q", got, want)
	}
}

// The IDs of a daemon with remapped users are those that the container sees.
func TestInside(t *testing.T) {
	m := idMap{{0, 100000, 1000}, {5000, 7, 1}}
	for id, want := range map[string]string{"100000": "0", "100999": "999", "7": "5000", "0": "0 (not mapped)",
		"101000": "101000 (not mapped)"} {
		if got := m.inside(id); got != want {
			t.Errorf("inside(%s) = %s, want %s", id, got, want)
		}
	}
}

func TestGone(t *testing.T) {
	cmd := exec.Command("/bin/true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(cmd.Process.Pid); !errors.Is(err, ErrGone) {
		t.Errorf("Open() of an ended process = %v", err)
	}
}

// The files of the kernel that a runtime masks are checked by what is mounted there.
func TestMasked(t *testing.T) {
	dev := "1 2 0:1 / /dev rw,nosuid - tmpfs tmpfs rw\n1 2 0:1 / /proc rw - proc proc rw\n1 2 0:1 / /sys ro - sysfs sysfs ro\n"
	for name, c := range map[string]struct{ more, want string }{
		"masked":     {"1 2 0:1 /null /proc/keys rw - tmpfs tmpfs rw\n1 2 0:1 / /sys/firmware ro - tmpfs tmpfs ro\n", ""},
		"not masked": {"1 2 0:1 / /sys/firmware ro - tmpfs tmpfs ro\n", `"/proc/keys" of the kernel is not masked`},
		"by itself": {"1 2 0:1 /keys /proc/keys rw - proc proc rw\n1 2 0:1 / /sys/firmware ro - tmpfs tmpfs ro\n",
			`"/proc/keys" of the kernel is not masked`},
		"mask removed":        {"1 2 0:1 /null /proc/keys rw - tmpfs tmpfs rw\n1 2 0:1 /keys /proc/keys rw - proc proc rw\n1 2 0:1 / /sys/firmware ro - tmpfs tmpfs ro\n", `"/proc/keys" of the kernel is not masked`},
		"another /dev":        {"1 2 0:1 /null /proc/keys rw - tmpfs tmpfs rw\n1 2 0:1 / /sys/firmware ro - tmpfs tmpfs ro\n1 2 0:1 / /dev rw - ext4 /dev/vda rw\n", `another file system at "/dev"`},
		"another tmpfs, /sys": {"1 2 0:1 /null /proc/keys rw - tmpfs tmpfs rw\n1 2 0:1 / /sys/firmware ro - tmpfs tmpfs ro\n1 2 0:1 / /sys rw - tmpfs tmpfs rw\n", `another file system at "/sys"`},
	} {
		got := strings.Join(compareMounts(parseMounts(dev+c.more),
			&Expected{Mounts: []string{}, Masked: []string{"/proc/keys", "/sys/firmware"}, OwnTrees: true}), "; ")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: compareMounts() = %q, want %q", name, got, c.want)
		}
	}
}
