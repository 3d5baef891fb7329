package deb_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/packaging/deb"
)

// job is a service whose process is easy to find.
const job = `job "sleeper" {
  group "g" {
    task "t" {
      driver = "exec2"
      config {
        command = "/bin/sleep"
        args    = ["123456"]
      }
      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
`

// host is the machine of a test.
type host struct {
	*testing.T
	*deb.Machine
}

// do runs a command and returns its output without spaces at the ends.
func (h host) do(command string) string {
	h.Helper()
	out, err := h.Machine.Run(h.Context(), command)
	if err != nil {
		h.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// await waits until a command prints what is wanted.
func (h host) await(command, want string) {
	h.Helper()
	var out string
	var err error
	defer func() {
		if h.Failed() {
			h.Logf("%s printed %q: %v", command, out, err)
		}
	}()
	testpace.Within(h, 90*time.Second, command+" prints "+want, func() bool {
		out, err = h.Machine.Run(h.Context(), command)
		return strings.TrimSpace(out) == want
	})
}

// state returns the properties of the client's main process and of the process of the task.
func (h host) state() (agent, task string) {
	h.Helper()
	agent = h.do("systemctl show --property=MainPID --value open-nomad-client")
	task = h.do("pid=$(pgrep -x sleep) && echo $pid $(cut -d ' ' -f 22 /proc/$pid/stat)") // with its start time
	return agent, task
}

// dump prints the state of a machine after a failure.
const dump = `journalctl --no-pager -n 60 -u 'open-nomad-*'
export NOMAD_TOKEN=$(cat /root/token)
nomad job status -evals sleeper; nomad eval list; for a in $(nomad job allocs -t '{{range .}}{{.ID}} {{end}}' sleeper); do nomad alloc status $a; done
nomad job explain sleeper; findmnt -R /sys/fs/cgroup; ps -ef`

// boot boots a machine.
func boot(t *testing.T) host {
	t.Helper()
	need(t, "systemd-nspawn", "mmdebstrap", "nsenter")
	if os.Geteuid() != 0 {
		missing(t, "run this test as root")
	}
	cache := os.Getenv("DEB_CACHE")
	if cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		cache = filepath.Join(dir, "open-nomad-deb")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	archive, err := deb.Fetch(ctx, cache)
	if err != nil {
		missing(t, err.Error())
	}
	root := filepath.Join(t.TempDir(), "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	m, err := deb.Boot(ctx, archive, root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			journal, _ := m.Run(context.Background(), dump) // empty if it does not run
			t.Logf("the machine's console:\n%s\njournal:\n%s", m.Console(), journal)
		}
		m.Stop()
	})
	testpace.Within(t, 90*time.Second, "the machine boots", func() bool { return m.Ready(ctx) == nil })
	return host{t, m}
}

// files lists the files of the machine that a package could leave.
func (h host) files() []string {
	h.Helper()
	find := "find / -xdev"
	// Others write here: /var/backups has what a timer of dpkg saves at midnight.
	for _, changing := range []string{"/var/log", "/var/lib/dpkg", "/var/backups", "/tmp", "/run", "/var/cache"} {
		find += " -not -path '" + changing + "/*'"
	}
	list := strings.Split(h.do(find+" | sort"), "\n")
	return list
}

// TestLife installs the package on a new machine, runs a task, upgrades, removes and purges the package.
func TestLife(t *testing.T) {
	h := boot(t)
	man := pages(t)
	first, second := build(t, nomad(t), man, "2.0.6+1"), build(t, another(t), man, "2.0.6+2")
	copyTo(t, first, filepath.Join(h.Root, "opt/first.deb"))
	copyTo(t, second, filepath.Join(h.Root, "opt/second.deb"))
	if err := os.WriteFile(filepath.Join(h.Root, "opt/sleeper.nomad.hcl"), []byte(job), 0o644); err != nil {
		t.Fatal(err)
	}
	before := h.files()

	h.installed()
	h.started()
	h.upgraded()
	h.crashed()
	h.removed()
	h.purged(before)
}

// installed installs the package: it starts nothing, and a start without a configuration names the file.
func (h host) installed() {
	h.do("dpkg -i /opt/first.deb")
	for command, want := range map[string]string{
		"id -un nomad":                                   "nomad",
		"stat -c '%a %U %G' /etc/nomad.d":                "750 root nomad",
		"systemctl is-active open-nomad-server || true":  "inactive",
		"systemctl is-active open-nomad-client || true":  "inactive",
		"systemctl is-enabled open-nomad-server || true": "disabled",
		"systemctl is-enabled open-nomad-client || true": "disabled",
		"systemd-analyze verify --man=no open-nomad-server.service open-nomad-client.service 2>&1 | grep open-nomad || true": "",
	} {
		if got := h.do(command); got != want {
			h.Errorf("%s prints %q, want %q", command, got, want)
		}
	}
	if out, err := h.Machine.Run(h.Context(),
		"systemctl start open-nomad-server; systemctl stop open-nomad-server; journalctl --sync; journalctl --no-pager -u open-nomad-server; systemctl reset-failed"); err != nil || !strings.Contains(out, "/etc/nomad.d/server.hcl") {
		h.Errorf("a start without a configuration does not name it: %v %s", err, out)
	}
}

// started starts a server and a client as the examples say, and a task.
func (h host) started() {
	h.do("cd /etc/nomad.d && cp server.hcl.example server.hcl && cp client.hcl.example client.hcl && systemctl enable --now open-nomad-server")
	h.await("nomad acl bootstrap -t '{{.SecretID}}' > /root/token && wc -l < /root/token", "1")
	h.do("umask 077; NOMAD_TOKEN=$(cat /root/token) nomad node intro create -t '{{.JWT}}' | sed 's/^/NOMAD_CLIENT_INTRO_TOKEN=/' > /etc/nomad.d/client.env")
	h.writableControlGroups()
	h.do("systemctl enable --now open-nomad-client")
	if got := h.do("systemctl show --property=User --value open-nomad-server; cat /proc/$(systemctl show --property=MainPID --value open-nomad-server)/status | grep -E '^(CapBnd|NoNewPrivs|Seccomp):' | tr -d '\\n\\t '"); got != "nomad\nCapBnd:0000000000000000NoNewPrivs:1Seccomp:2" {
		h.Errorf("the process of the server has %q", got)
	}
	h.do("export NOMAD_TOKEN=$(cat /root/token); nomad job run -detach /opt/sleeper.nomad.hcl")
	h.await("pgrep -xc sleep", "1")
	if got := h.do("systemctl show --property=KillMode --value open-nomad-client; grep ^0:: /proc/$(pgrep -x sleep)/cgroup"); !strings.HasPrefix(got, "process\n0::/nomad.slice/") {
		h.Errorf("a stop of the client may end the task: its kill mode and the task's control group are %q", got)
	}
	if got := h.do("cat /proc/$(pgrep -x sleep)/oom_score_adj"); got != "0" {
		h.Errorf("the task has the oom_score_adj %s of the unit", got)
	}
}

// writableControlGroups undoes what only systemd-nspawn does: it mounts the controllers of version 1 read-only.
func (h host) writableControlGroups() {
	h.Helper()
	h.do("for at in $(findmnt -n -r -o TARGET -t cgroup); do mount -o remount,rw,bind $at; done")
}

// upgraded installs the second version: both agents are restarted, the task goes on.
func (h host) upgraded() {
	agent, task := h.state()
	server := h.do("systemctl show --property=MainPID --value open-nomad-server")
	h.do("dpkg -i /opt/second.deb")
	h.sameTask("an upgrade", agent, task)
	if now := h.do("systemctl show --property=MainPID --value open-nomad-server"); now == server {
		h.Error("an upgrade does not restart the server")
	}
	if got := h.do("readlink /proc/$(systemctl show --property=MainPID --value open-nomad-client)/exe && nomad version"); !strings.HasPrefix(got, "/usr/bin/nomad\n") || !strings.Contains(got, "Revision second") {
		h.Errorf("after an upgrade the client runs %q", got)
	}
}

// sameTask checks that the client was restarted and the task was not, and that its allocation still runs.
func (h host) sameTask(after, agent, task string) {
	h.Helper()
	h.await("systemctl is-active open-nomad-client", "active")
	nowAgent, nowTask := h.state()
	if nowAgent == agent || nowTask != task {
		h.Errorf("after %s: agent %s -> %s, want another; task %s -> %s, want the same", after, agent, nowAgent, task, nowTask)
	}
	h.await(`NOMAD_TOKEN=$(cat /root/token) nomad job allocs -t '{{range .}}{{.ClientStatus}} {{range .TaskStates}}{{.State}} {{.Restarts}}{{end}}{{end}}' sleeper`, "running running 0")
}

// crashed kills and restarts the client.
func (h host) crashed() {
	agent, task := h.state()
	h.do("systemctl restart open-nomad-client")
	h.sameTask("a restart", agent, task)
	agent, _ = h.state()
	h.do("kill -KILL " + agent)
	h.await("pid=$(systemctl show --property=MainPID --value open-nomad-client); [ $pid != 0 ] && [ $pid != "+agent+" ] && echo restarted",
		"restarted")
	h.sameTask("a crash", agent, task)
}

// removed removes the package, which leaves the task, and installs it again.
func (h host) removed() {
	agent, task := h.state()
	out := h.do("dpkg -r open-nomad 2>&1")
	if !strings.Contains(out, "processes of tasks go on") {
		h.Errorf("the removal does not say that a task goes on: %s", out)
	}
	if got := h.do("ls /usr/bin/nomad 2>&1 || true; pgrep -x nomad || true; ls /etc/nomad.d/server.hcl"); !strings.Contains(got,
		"No such file") || strings.Count(got, "\n") != 1 {
		h.Errorf("after the removal: %s", got)
	}
	h.do("dpkg -i /opt/second.deb && systemctl start open-nomad-server open-nomad-client")
	h.sameTask("a removal", agent, task)
}

// purged purges the package twice: with a running task, whose file systems are kept, and without. No file
// and no process is left.
func (h host) purged(before []string) {
	_, task := h.state()
	out := h.do("rm /root/token; dpkg -P open-nomad 2>&1")
	if !strings.Contains(out, "removes /etc/nomad.d") || !strings.Contains(out, "keeps /var/lib/nomad") {
		h.Errorf("the purge with a running task prints: %s", out)
	}
	if _, now := h.state(); now != task {
		h.Errorf("a purge ends the task %s, now %s", task, now)
	}
	h.do("kill -KILL $(pgrep -x sleep)")
	h.await("pgrep -f '[s]upervise' || true", "")
	h.do("cut -d ' ' -f 5 /proc/self/mountinfo | grep ^/var/lib/nomad/ | sort -r | xargs -r umount")
	if out := h.do("dpkg -i /opt/first.deb && dpkg -P open-nomad 2>&1"); !strings.Contains(out, "removes /var/lib/nomad") {
		h.Errorf("the purge without tasks prints: %s", out)
	}
	if got := h.do("pgrep -x nomad || true"); got != "" {
		h.Errorf("processes are left: %s", got)
	}
	var left []string
	for _, f := range h.files() {
		if _, was := slices.BinarySearch(before, f); !was {
			left = append(left, f)
		}
	}
	if len(left) > 0 {
		h.Errorf("%d files are left: %s", len(left), strings.Join(left[:min(20, len(left))], "\n"))
	}
}

// another builds the program of the second version.
func another(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "nomad")
	const flags = "-s -w -X github.com/open-nomad/open-nomad/internal/version.Revision=second"
	cmd := exec.Command("go", "build", "-trimpath", "-tags", "companion", "-ldflags", flags, "-o", bin, "../..")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

func copyTo(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.Command("cp", from, to).CombinedOutput(); err != nil {
		t.Fatal(fmt.Errorf("%w: %s", err, out))
	}
}
