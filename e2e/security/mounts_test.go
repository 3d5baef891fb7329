package security_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
	"github.com/open-nomad/open-nomad/internal/testdocker"
)

// mountsNode is an agent with docker and these volumes: rw, sub (a directory in rw), and ro, which is read-only and has
// another file system below it.
type mountsNode struct {
	*testing.T
	dir     string
	agent   *cluster.Agent
	options cluster.Options
}

func newMountsNode(t *testing.T) *mountsNode {
	harness.NeedsRoot(t)
	daemon := testdocker.Start(t)
	n := &mountsNode{T: t, dir: harness.OutsideTmp(t)}
	for _, name := range []string{"rw", "rw/sub", "ro", "ro/m", "secret"} {
		if err := os.Mkdir(n.at(name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	harness.WriteFile(t, n.at("secret/f"), harness.Canary+"\n")
	if err := errors.Join(os.Chmod(n.at("secret"), 0o700), unix.Mount("tmpfs", n.at("ro/m"), "tmpfs", 0, "")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(n.at("ro/m"), unix.MNT_DETACH) })
	text := fmt.Sprintf("plugin \"docker\" {\n config {\n endpoint = %q\n infra_image = %q\n }\n}\nclient {\n", daemon.Endpoint(),
		testdocker.Pause)
	for name, path := range map[string]string{"rw": "rw", "sub": "rw/sub", "ro": "ro"} {
		text += fmt.Sprintf("host_volume %q {\n path = %q\n read_only = %t\n}\n", name, n.at(path), name == "ro")
	}
	harness.WriteFile(t, n.at("agent.hcl"), text+"}\n")
	n.options = cluster.Options{Dir: n.dir,
		Args: []string{"-server", "-client", "-bootstrap-expect=1", "-bind=127.0.0.1", "-data-dir=" + n.at("data"),
			"-config=" + n.at("agent.hcl")}}
	n.start()
	return n
}

// start starts the agent, again after Stop.
func (n *mountsNode) start() {
	n.Helper()
	a := harness.Start(n.T, n.options)
	n.agent = a
	n.Cleanup(func() {
		if a == n.agent { // an earlier one is stopped
			harness.PurgeAll(n.T, a)
		}
	})
}

func (n *mountsNode) at(name string) string { return filepath.Join(n.dir, name) }

// task returns a docker task that runs a script. Its secrets have the token of its identity.
func (n *mountsNode) task(name, script, top, config string) string {
	text := strings.Replace(harness.DockerTask("docker", script, config), "kill_timeout",
		"identity {\n file = true\n }\n "+top+"\n kill_timeout", 1)
	return harness.Named(name, text)
}

// TestDockerMountsUnderAttack registers jobs whose tasks mount what belongs to other tasks or to the node. They need no
// more than the right to submit jobs. Each is refused, although an earlier task of the allocation prepares the path.
func TestDockerMountsUnderAttack(t *testing.T) {
	n := newMountsNode(t)
	const own, link = "below its own local", "a link leads out of"
	bind := func(source string) string {
		return fmt.Sprintf("mount {\n type = \"bind\"\n source = %q\n target = \"/x\"\n}", source)
	}
	volume := func(source string) string { return fmt.Sprintf("volumes = [\"%s:/x\"]", source) }
	rows := map[string]struct{ prepare, config, want string }{
		"secrets of a sibling":            {"true", volume("../other/secrets"), own},
		"secrets of a sibling, mount":     {"true", bind("../other/secrets"), own},
		"secrets of a sibling, read-only": {"true", `volumes = ["../other/secrets:/x:ro"]`, own},
		"secrets of a sibling, by dots":   {"true", volume("local/../../other/secrets"), own},
		"the allocation":                  {"true", volume(".."), own},
		"the allocation, mount":           {"true", bind(".."), own},
		"the own directory":               {"true", volume("."), own},
		"logs of all tasks":               {"true", volume("../alloc/logs"), own},
		"the directory of allocations":    {"true", volume("../.."), "volumes are not enabled"},
		"a link to the node":              {"ln -s / /alloc/data/l", volume("../alloc/data/l"), link},
		"a link to a sibling":             {"ln -s ../../other/secrets /alloc/data/l", volume("../alloc/data/l"), link},
		"below a link to the node":        {"ln -s / /alloc/data/l", volume("../alloc/data/l/etc"), link},
		"a mount over the kernel's files": {"true", `volumes = ["local:/proc/sys"]`, "belongs to the kernel"},
	}
	ids := map[string]string{}
	for name, row := range rows {
		ids[name] = strings.NewReplacer(" ", "-", ",", "", "'", "").Replace(name) // for the job
		harness.Run(t, n.agent, harness.Job(ids[name], `type = "batch"`,
			harness.Once+n.task("other", row.prepare, "lifecycle {\n hook = \"prestart\"\n}", "")+
				n.task("t", "cat /x/* /x/*/secrets/*", "", row.config)))
	}
	harness.Run(t, n.agent, harness.Job("own", `type = "batch"`,
		harness.Once+n.task("other", "echo data >/alloc/data/f; ln -s f /alloc/data/l", "lifecycle {\n hook = \"prestart\"\n}", "")+
			n.task("t", "cut -c 1-3 /s/nomad_token; cat /d/l; echo new >/n/f && cat /local/dir/f", "",
				`volumes = ["secrets:/s:ro", "../alloc/data:/d", "local/dir:/n"]`)))
	for name, row := range rows {
		al := harness.Await(t, n.agent, ids[name], "failed", 1)[0]
		if text := harness.Event(t, al, "t", api.TaskDriverFailure).DisplayMessage; !strings.Contains(text, row.want) {
			t.Errorf("%s: %s, want %q", name, text, row.want)
		}
		if out := harness.Log(n.agent, al); out != "" {
			t.Errorf("%s: output %q", name, out)
		}
	}
	if out := harness.Log(n.agent, harness.Await(t, n.agent, "own", "complete", 1)[0]); out != "eyJ\ndata\nnew\n" {
		t.Errorf("a task with its own directories: %q", out)
	}
}

// TestDockerVolumesUnderAttack checks that a read-only volume is read-only with the file systems below it, that a
// container that runs as root cannot lead another volume of the node anywhere with a link, and that it can leave nothing in
// its allocation that other users of the node can run.
func TestDockerVolumesUnderAttack(t *testing.T) {
	n := newMountsNode(t)
	with := func(volume, task string) string {
		return fmt.Sprintf("volume \"v\" {\n type = \"host\"\n source = %q\n read_only = %t\n}\n", volume, volume == "ro") +
			strings.Replace(task, "kill_timeout", "volume_mount {\n volume = \"v\"\n destination = \"/mnt\"\n}\n kill_timeout", 1)
	}
	harness.Run(t, n.agent, harness.Job("reader", `type = "batch"`,
		harness.Once+with("ro", n.task("t", "for f in /mnt/x /mnt/m/x; do if true 2>/dev/null >$f; then echo $f; fi; done; echo end", "", ""))))
	harness.Run(t, n.agent, harness.Job("planter", `type = "batch"`,
		harness.Once+with("rw", n.task("t", "mv /mnt/sub /mnt/was && ln -s "+n.at("secret")+" /mnt/sub && echo end", "", ""))))
	harness.Run(t, n.agent, harness.Job("leaver", "", n.task("t",
		"chmod 777 /alloc/data /local; for d in /alloc/data /local; do cp /bin/busybox $d/su; chmod 4755 $d/su; done; echo end; while :; do sleep 1; done", "", "")))
	for id, status := range map[string]string{"reader": "complete", "planter": "complete", "leaver": "running"} {
		al := harness.Await(t, n.agent, id, status, 1)[0]
		harness.Within(t, harness.Patience, "the output of "+id, func() bool { return harness.Log(n.agent, al) != "" })
		if out := harness.Log(n.agent, al); out != "end\n" {
			t.Errorf("%s: output %q", id, out)
		}
	}
	for _, name := range []string{"ro/x", "ro/m/x"} {
		if _, err := os.Lstat(n.at(name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s of the read-only volume: %v", name, err)
		}
	}
	n.othersRefused(harness.OnlyAlloc(t, n.agent, "leaver").ID)
	if err := n.agent.Stop(); err != nil {
		t.Fatal(err)
	}
	n.start()
	harness.Await(t, n.agent, "leaver", "running", 1)
	nodes, _, err := n.agent.Client.Nodes().List(nil)
	if err != nil || len(nodes) != 1 {
		t.Fatalf("nodes = %v, %v, want one", nodes, err)
	}
	node, _, err := n.agent.Client.Nodes().Info(nodes[0].ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	if v := node.HostVolumes["sub"]; v != nil || node.HostVolumes["rw"] == nil {
		t.Errorf("volumes of the node after the restart: sub is %+v, all are %v", v, node.HostVolumes)
	}
}

// othersRefused checks that another user of the node runs and writes no file of an allocation.
func (n *mountsNode) othersRefused(alloc string) {
	n.Helper()
	dir := filepath.Join(n.at("data"), "alloc", alloc)
	asNobody := func(name string, args ...string) error {
		cmd := exec.Command(name, args...)
		cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		return cmd.Run()
	}
	all := func() (err error) {
		for _, sub := range []string{"alloc/data", "t/local"} {
			at := filepath.Join(dir, sub)
			for _, args := range [][]string{{filepath.Join(at, "su"), "true"}, {"/bin/sh", "-c", "echo x >" + filepath.Join(at, "f")}} {
				if one := asNobody(args[0], args[1:]...); one == nil {
					err = errors.Join(err, fmt.Errorf("another user of the node does %q", args))
				}
			}
		}
		return err
	}
	if err := all(); err != nil {
		n.Error(err)
	}
	info, err := os.Stat(dir)
	if err == nil {
		err = os.Chmod(dir, 0o711)
	}
	if err != nil {
		n.Fatal(err)
	}
	if err := all(); err == nil {
		n.Error("the test proves nothing: the directories above do not let the user pass")
	}
	if err := os.Chmod(dir, info.Mode().Perm()); err != nil {
		n.Fatal(err)
	}
}
