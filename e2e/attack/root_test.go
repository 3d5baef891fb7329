package attack_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/internal/landlock"
	"github.com/open-nomad/open-nomad/internal/testthread"
)

// ofRoot are the reasons for all tasks with a root directory of their own.
var ofRoot = []reason{
	{"files/root-directory", "the root directory of the task itself"},
	{"files/etc-passwd", "chroot_env has /etc: only what everybody may read"},
	{"ipc/dev-shm", "a /dev/shm of its own"},
	{"device/entropy", "a /dev of its own: it mixes into the pool, and counts for nothing without a capability"},
	{"device/ioctl", "a /dev of its own, with devices that are open to all"},
	{"device/terminal-multiplexer", "terminals of its own"},
	{"identity/environment-of-", "the task has the environment of the agent without env.denylist, as in Nomad, and its own"},
	{"own/alloc-root-write", "it is in the root directory of the task itself"},
	{"own/task-root-write", "the root directory of the task itself is writable, as in Nomad"},
	{"own/replace-local", "the agent follows no link in the directory of a task: TestSwappedPlaces in e2e/security"},
	{"proc/list", "the processes of its own namespace, and its process 1"},
	{"proc/stat-init", "process 1 of its own namespace"},
	{"process/core-dump", "its own memory, in its own root directory"},
}

// withCaps are the reasons for tasks with the default capabilities.
var withCaps = slices.Concat(ofRoot, []reason{
	{"connect/tcp-bind-low-port", "net_bind_service"},
	{"identity/add-capability", "it has chown: nothing is added"},
	{"identity/bounding-set", "the default capabilities"},
	{"identity/capabilities", "the default capabilities"},
	{"identity/secure-bits", "setpcap: it only gives up its own capabilities"},
	{"identity/set-", "setuid and setgid: files of the node have no other owner than the task's user, and other users cannot enter the directory of the allocation"},
	{"own/capability-xattr", "setfcap: nobody of the node can enter the directory of the allocation"},
	{"own/chown-away", "chown: nobody of the node can enter the directory of the allocation"},
	{"proc/fd-init", "dac_override lists the numbers of descriptors, and opens none"},
})

// ownProcess1 is the reason for tasks with kill and a PID namespace.
var ownProcess1 = []reason{{"process/signal-init", "kill: process 1 of its own namespace"}, {"process/pidfd-signal-init", "kill: process 1 of its own namespace"}}

// ambientCaps is the reason for tasks with capabilities and another user than root.
var ambientCaps = []reason{{"identity/ambient-set", "the default capabilities"}}

// defaults are the reasons for a task without options.
var defaults = slices.Concat(withCaps, ownProcess1, ambientCaps)

// moreCaps are capabilities that the operator must allow.
var moreCaps = []string{"dac_read_search", "ipc_lock", "ipc_owner", "linux_immutable", "net_admin", "net_raw", "sys_admin", "sys_nice",
	"sys_ptrace", "sys_rawio", "sys_time"}

// roots are the columns of testdata/exec.txt: tasks in a root directory of their own.
var roots = []situation{
	{name: "exec", driver: "exec", allows: defaults},
	{name: "exec-no-caps", driver: "exec", config: map[string]any{"cap_drop": []string{"all"}}, allows: ofRoot},
	{name: "exec-host-modes", driver: "exec", config: map[string]any{"pid_mode": "host", "ipc_mode": "host"},
		allows: slices.Concat(withCaps, ambientCaps, []reason{
			{"proc/fd-", "dac_override lists the numbers of descriptors, and opens none"},
			{"proc/stat-", "pid_mode = host: the task sees all processes of the node"},
			{"schedule/affinity-neighbour", "pid_mode = host: the kernel asks for the uid only, and both tasks are nobody. Namespaces can demand another level"},
			{"schedule/priority-neighbour", "pid_mode = host: the kernel asks for the uid only, and both tasks are nobody. Namespaces can demand another level"},
			{"own/log-pipe-read", "only process 1 could keep the pipe open for reading in the task's stead, and there is no PID namespace"},
		})},
	{name: "exec-no-pivot", driver: "exec", plugins: pluginExec("no_pivot_root = true"), allows: defaults},
	{name: "exec-network", driver: "exec", network: "none", allows: defaults},
	{name: "exec-session", driver: "exec", session: true, allows: append([]reason{
		{"own/log-pipe-read", "the output of a session goes to its caller by a pipe of its own, not to the log"},
	}, defaults...)},
	{name: "exec-more-caps", driver: "exec", config: map[string]any{"cap_add": moreCaps}, plugins: pluginExec(`allow_caps = ["all"]`),
		allows: slices.Concat(defaults, []reason{
			{"proc/environ-init", "sys_admin: process 1 of its own namespace, which has no secret"},
			{"proc/maps-init", "sys_admin: process 1 of its own namespace"},
			{"schedule/affinity-init", "sys_nice: process 1 of its own namespace"},
			{"schedule/priority-init", "sys_nice: process 1 of its own namespace"},
			{"schedule/own-nice", "sys_nice: the operator allowed it"},
			{"socket/", "net_admin: the operator allowed it"},
		})},
	{name: "exec-root", driver: "exec", user: "root", allows: slices.Concat(withCaps, ownProcess1, []reason{
		{"files/etc-shadow", "the operator allowed root, which reads the files of root in chroot_env, and writes none"},
		{"files/setuid-program", "it is root already"},
		{"identity/is-root", "the operator allowed root"},
		{"schedule/affinity-init", "process 1 of its own namespace"},
		{"schedule/limits-init", "process 1 of its own namespace"},
		{"schedule/priority-init", "process 1 of its own namespace"},
	})},
}

func pluginExec(option string) string {
	return fmt.Sprintf("plugin \"exec\" {\n  config {\n    %s\n  }\n}", option)
}

// emulators are the columns of testdata/qemu.txt: the probe in the place of an emulator, as a guest that has taken it over.
var emulators = []situation{
	{name: "qemu", driver: "qemu"},
	{name: "qemu-named", driver: "qemu", user: namedUser, allows: []reason{
		{"mate/api-socket", "tasks of one allocation and one named user reach each other's API socket, which asks for a token: give tasks users of their own"},
	}},
	{name: "qemu-network", driver: "qemu", network: "none"},
}

// emulator is the suffix of the probe's name in its place.
const emulator = "probe"

// pluginQemu returns a block that allows the targets as an image, so that the probe can read them.
func (g *ground) pluginQemu() string {
	return fmt.Sprintf("plugin \"qemu\" {\n  config {\n    image_paths = [\"%s/granted\"]\n  }\n}", g.dir)
}

// An emulator is allowed exactly what the table allows, with a reason.
func TestQemuTable(t *testing.T) {
	needs(t, landlock.ABIAudit)
	check(t, "qemu", emulators)
}

// javas are the columns of testdata/java.txt: a program that a class starts.
var javas = []situation{{name: "java", driver: "java", allows: defaults}}

// A Java program is allowed exactly what the table allows, with a reason.
func TestJavaTable(t *testing.T) {
	needs(t, landlock.ABIAudit)
	if _, err := exec.LookPath("java"); err != nil {
		t.Skip("needs java")
	}
	check(t, "java", javas)
}

// victim returns the situation of other tasks. An emulator cannot write what the victims write.
func (s situation) victim() situation {
	if s.driver == "qemu" || s.driver == "java" {
		return situation{user: s.user, network: s.network}
	}
	return s
}

// inRoot reports whether the task has a root directory of its own.
func (s situation) inRoot() bool { return s.driver == "exec" }

// rootBlock returns additions to the client block: the probe and the targets are in the root, at the paths that
// they have on the node, and root is an allowed user.
func (g *ground) rootBlock() string {
	return fmt.Sprintf(`options = {
    "user.denylist" = "none"
  }
  chroot_env = {
    "/bin" = "/bin"
    "/etc" = "/etc"
    "/lib" = "/lib"
    "/lib64" = "/lib64"
    "/usr" = "/usr"
    "%[1]s/granted" = "%[1]s/granted"
  }`, g.dir)
}

// The root directory of a task allows exactly what the table allows, with a reason.
func TestRootTable(t *testing.T) {
	needs(t, landlock.ABIAudit)
	check(t, "exec", roots)
}

// A task of exec makes a program of root with the bit setuid, which its capabilities allow. Users of the node cannot
// reach it, also not the task's own user. Templates are still rendered as this user.
func TestRootOutOfReach(t *testing.T) {
	g := newGround(t)
	g.clientBlock = g.rootBlock()
	h := g.startHost("", "")
	task := h.task("t", situation{driver: "exec"})
	task.Config = map[string]any{"command": "/bin/sh", "args": []string{"-c",
		"cp /bin/true /local/program && chown 0 /local/program && chmod 4755 /local/program && exec sleep 600"}}
	text, at := `{{ env "NOMAD_TASK_NAME" }}`, "local/rendered"
	task.Templates = []*api.Template{{EmbeddedTmpl: &text, DestPath: &at}}
	al := h.run(job("reach", "service", situation{}, task), "running")
	dir := filepath.Join(g.targets.DataDir, "alloc", al.ID, "t/local")
	program := filepath.Join(dir, "program")
	h.within("the program", func() bool {
		info, err := os.Stat(program)
		return err == nil && info.Mode()&os.ModeSetuid != 0 && info.Sys().(*syscall.Stat_t).Uid == 0
	})
	if text, err := os.ReadFile(filepath.Join(dir, "rendered")); err != nil || strings.TrimSpace(string(text)) != "t" {
		t.Errorf("the template is %q, %v", text, err)
	}
	uid, gid := lookup(t, "nobody")
	for _, name := range []string{program, filepath.Join(dir, "rendered")} {
		if err := openAs(uid, gid, name); err == nil {
			t.Errorf("nobody of the node reaches %s", name)
		}
	}
}

// openAs opens a file as a user.
func openAs(uid, gid int, name string) (err error) {
	testthread.Run(func() {
		syscall.RawSyscall(syscall.SYS_SETGROUPS, 0, 0, 0)
		syscall.RawSyscall(syscall.SYS_SETFSGID, uintptr(gid), 0, 0)
		syscall.RawSyscall(syscall.SYS_SETFSUID, uintptr(uid), 0, 0)
		var f *os.File
		if f, err = os.Open(name); err == nil {
			f.Close()
		}
	})
	return err
}
